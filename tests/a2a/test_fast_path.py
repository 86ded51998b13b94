"""The fast path for usual requests returns and stores what each operation does alone."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from django.db import OperationalError
from redis import RedisError

from a2a import tasks
from a2a.models import Message, Task
from a2a.protocol import fast_path
from a2a.tasks import questions
from ledger.foundation.batches import Batcher
from ledger.models import AgentToken, Scope
from tests.a2a.test_protocol import Peer
from tests.agents_at_work import GOOD_INPUT
from tests.asgi import request

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def peer(orchestrator):
    return Peer(orchestrator, Scope.SUBMIT)


def both_ways(peer, task_id):
    """``id`` alone goes in a batch, in each binding; with any other member it is read alone."""
    short = peer.rpc("GetTask", {"id": task_id})["result"]
    long = peer.rpc("GetTask", {"id": task_id, "historyLength": 100})["result"]
    assert peer.http("GET", f"/a2a/rest/tasks/{task_id}").json() == short
    return short, long


def test_a_task_reads_the_same_both_ways_in_every_state(peer, consolidate, worker, alice):
    task_id = peer.send(metadata={"case": 7, "nested": {"a": [1, "x", None, True]}})["id"]
    states = []

    def compare():
        short, long = both_ways(peer, task_id)
        assert short == long
        states.append(short["status"]["state"])

    compare()
    work = tasks.claim(worker.principal, skills=[], via="api")
    held = {"agent": worker.principal, "fencing_token": work.fencing_token, "via": "api"}
    compare()
    tasks.report(work.pk, **held, stage="reading", percent=5, note="")
    tasks.add_artifact(work.pk, **held, artifact_id="n", name="N", parts=[{"text": "a"}])
    compare()
    question = questions.ask(work.pk, **held, text="Which?", form={"type": "string"})
    compare()
    questions.answer(question.pk, "this", by=alice, via="web")
    said = Message(
        message_id="m2",
        role="user",
        principal="x",
        principal_name="x",
        parts=[{"data": {"a": 1}}],
        metadata={"k": "v"},
    )
    tasks.add_message(work.pk, said, by=work_client(work), via="a2a")
    compare()
    tasks.complete(work.pk, **held, result={"summary": "s"})
    compare()

    assert states == [
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
        "TASK_STATE_WORKING",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
    ]


def work_client(task):
    from ledger.principals import Principal

    kind, _, name = task.submitted_by.partition(":")
    return Principal(kind, name, task.submitted_by_name)


def test_a_message_is_taken_the_same_both_ways(peer, consolidate):
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "contextId": "c1",
        "metadata": {"a": "b"},
        "parts": [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}],
    }
    config = {"returnImmediately": True}
    short = peer.rpc("SendMessage", {"message": message, "configuration": config})["result"]["task"]
    unusual = {"message": message, "configuration": {**config, "acceptedOutputModes": []}}
    long = peer.http("POST", "/a2a/rest/message:send", json=unusual).json()["task"]

    def without_what_differs(task):
        text = json.dumps(task).replace(task["id"], "ID")
        said = json.loads(text)
        del said["status"]["timestamp"]
        del said["metadata"]["urn:assent:a2a:task:1"]["created_at"]
        del said["metadata"]["urn:assent:a2a:task:1"]["expires_at"]
        return said

    assert without_what_differs(short) == without_what_differs(long)
    rows = [
        {name: getattr(task, name) for name in ("input", "metadata", "context_id", "state")}
        for task in Task.objects.all()
    ]
    assert rows[0] == rows[1]


def test_a_token_that_was_revoked_reads_nothing_at_once(peer, consolidate):
    task_id = peer.send()["id"]
    assert "result" in peer.rpc("GetTask", {"id": task_id})
    AgentToken.objects.update(revoked_at=AgentToken.objects.get().created_at)

    asked = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    assert peer.http("POST", "/a2a/v1", json=asked).status_code == 401


@pytest.mark.parametrize("scopes", [[Scope.SUBMIT], [Scope.WORK], [Scope.READ_ALL]])
def test_the_short_way_shows_what_the_long_way_shows(
    peer, consolidate, worker, helpdesk, stranger, scopes
):
    task_id = peer.send()["id"]
    for agent in (worker, helpdesk, stranger):
        other = Peer(agent, *scopes)
        short, long = both_ways_of(other, task_id)
        assert short == long, agent


def both_ways_of(peer, task_id):
    short = "result" in peer.rpc("GetTask", {"id": task_id})
    long = peer.http("GET", f"/a2a/rest/tasks/{task_id}?historyLength=100")
    return short, long.status_code == 200


def test_of_many_at_once_each_gets_its_own_answer(peer, consolidate):
    ids = [peer.send({"transcripts": [str(number)]})["id"] for number in range(20)]

    async def ask_all():
        asked = [(AgentToken.hash_of(peer.token), Task(id=task_id).pk) for task_id in ids]
        return await asyncio.gather(*(fast_path.reads.ask(one) for one in asked))

    found = [json.loads(one)["id"] for one in asyncio.run(ask_all())]
    assert found == ids


def test_who_asked_first_may_leave_and_the_others_are_answered():
    is_let_go = threading.Event()

    def slowly(items):
        is_let_go.wait(10)
        return [item * 2 for item in items]

    async def story():
        batch = Batcher(slowly)
        first, second = (asyncio.create_task(batch.ask(number)) for number in (1, 2))
        await asyncio.sleep(0)
        first.cancel()
        is_let_go.set()
        return await second

    assert asyncio.run(story()) == 4


async def results_of(batch, items):
    return await asyncio.gather(*(batch.ask(item) for item in items), return_exceptions=True)


def test_one_request_that_fails_fails_no_other_of_its_batch():
    def inverted(items):
        return [1 / item for item in items]

    one, failure, half = asyncio.run(results_of(Batcher(inverted), [1, 0, 2]))

    assert (one, half) == (1, 0.5)
    assert isinstance(failure, ZeroDivisionError)


@pytest.mark.parametrize(
    ("failure", "may_repeat"),
    [(RedisError("away"), True), (OperationalError("lost"), False), (ValueError("wrong"), False)],
)
def test_where_repeating_is_of_no_use_or_not_safe_a_batch_runs_once(failure, may_repeat):
    runs = []

    def fails(items):
        runs.append(items)
        raise failure

    results = asyncio.run(results_of(Batcher(fails, may_repeat=may_repeat), [1, 2, 3]))

    assert results == [failure] * 3
    assert runs == [[1, 2, 3]]


def test_no_batch_is_larger_than_the_bound():
    sizes = []

    def sized(items):
        sizes.append(len(items))
        return items

    assert asyncio.run(results_of(Batcher(sized), range(450))) == list(range(450))
    assert sizes == [200, 200, 50]


def test_a_batch_with_keys_old_and_new_settles_each(peer, consolidate):
    async def send(key, value=GOOD_INPUT, skill="consolidate"):
        parts = [{"data": {"skill": skill, "input": value}}]
        message = {"messageId": key, "role": "ROLE_USER", "parts": parts}
        params = {"message": message, "configuration": {"returnImmediately": True}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        headers = {"A2A-Version": "1.0", "Idempotency-Key": key}
        return (await request("POST", "/a2a/v1", peer.token, json=body, headers=headers)).json()

    async def send_all():
        first = await send("k1")
        return first, *await asyncio.gather(
            send("k1"),
            send("k1", {"transcripts": []}),
            send("k2", skill="x"),
            send("k3"),
        )

    first, again, other, denied, new = asyncio.run(send_all())

    assert first["result"]["task"]["id"] == again["result"]["task"]["id"]
    assert "idempotency key was used" in other["error"]["message"]
    assert denied["result"]["task"]["status"]["state"] == "TASK_STATE_REJECTED"
    assert new["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert Task.objects.count() == 3
