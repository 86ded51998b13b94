"""Messages of many clients become tasks in one statement, and none depends on another's."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.db import connection
from django.db.transaction import atomic

from a2a.models import Skill, Task
from a2a.protocol import fast_path
from a2a.protocol.calls import LARGEST_IN_BATCH, Call
from a2a.submissions import Submission, entries, submit
from ledger.errors import LimitReached
from ledger.limits import terms
from ledger.limits.terms import Limit, Of
from ledger.models import AgentToken, Scope
from tests.a2a.test_fast_path import results_of
from tests.agents_at_work import GOOD_INPUT, caller_for
from tests.asgi import request
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

NOT_STORABLE = {
    "a context id that is too long": {"contextId": "c" * 101},
    "a message id that is too long": {"messageId": "m" * 201},
    "a key with U+0000": {"metadata": {"idempotency_key": "a\x00b"}},
    "a key with half a surrogate pair": {"metadata": {"idempotency_key": "a\ud800b"}},
}


@pytest.fixture
def client(orchestrator) -> str:
    return AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT])[1]


@pytest.fixture
def outsider(stranger) -> str:
    """A token of another tenant, without any right."""
    return AgentToken.issue(stranger, scopes=[])[1]


def message(skill: str = "consolidate", **members: Any) -> dict[str, Any]:
    parts = [{"data": {"skill": skill, "input": GOOD_INPUT}}]
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts, **members}


def new(token: str, key: str = "", **members: Any) -> Call:
    return Call("SendMessage", {"message": message(**members)}, token, key=key)


def in_one_batch(messages: list[Call]) -> list[Any]:
    return asyncio.run(results_of(fast_path.sends, messages))


async def send(token: str, **members: Any) -> httpx.Response:
    params = {"message": message(**members), "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    return await request("POST", "/a2a/v1", token, content=json.dumps(body), headers=headers)


@pytest.mark.parametrize("name", NOT_STORABLE)
def test_a_message_that_cannot_be_stored_fails_no_other_of_its_batch(
    client, outsider, consolidate, name
):
    async def send_all() -> list[httpx.Response]:
        bad = send(outsider, **NOT_STORABLE[name])
        return await asyncio.gather(send(client), send(client), bad, send(client))

    first, second, refused, third = asyncio.run(send_all())

    for answer in (first, second, third):
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert refused.status_code == 200
    assert refused.json()["error"]["code"] in {-32602, -32700}, refused.text
    assert Task.objects.count() == 3


def test_a_row_that_only_the_database_refuses_fails_alone(client, consolidate, monkeypatch):
    """Whatever the checks overlook: here, that the skill of one message is deleted meanwhile."""
    gone = Skill.objects.create(
        agent=consolidate.agent, tenant=consolidate.tenant, slug="gone", name="Gone"
    )
    enter_all = entries.enter_all

    def after_deletion(*args: Any, **kwargs: Any) -> list[bool]:
        Skill.objects.filter(pk=gone.pk).delete()
        return enter_all(*args, **kwargs)

    monkeypatch.setattr(entries, "enter_all", after_deletion)

    first, refused, second = in_one_batch([new(client), new(client, skill="gone"), new(client)])

    assert {json.loads(answer)["task"]["id"] for answer in (first, second)} == {
        str(pk) for pk in Task.objects.values_list("pk", flat=True)
    }
    assert refused is None


def test_what_is_rejected_or_counted_is_submitted_alone(client, outsider, consolidate):
    """It writes on its own, and may wait for a lock: no batch is delayed, or half committed."""
    in_batch, unknown, without_scope = in_one_batch(
        [new(client), new(client, skill="nope"), new(outsider)]
    )
    assert (unknown, without_scope) == (None, None)
    assert Task.objects.get().pk.hex == json.loads(in_batch)["task"]["id"].replace("-", "")

    Skill.objects.update(max_concurrency=50)
    assert in_one_batch([new(client)]) == [None]
    assert Task.objects.count() == 1


def test_an_agent_has_only_so_many_tasks_rejected_a_minute(stranger, monkeypatch):
    monkeypatch.setitem(terms._installation(), (Limit.REJECTIONS, Of.AGENT), 2)
    caller = caller_for(stranger)

    def rejected(key: str) -> Task:
        submission = Submission(skill="nope", idempotency_key=key)
        return submit(submission, caller=caller, via="a2a").task

    first, _ = rejected("k1"), rejected("k2")
    with pytest.raises(LimitReached):
        rejected("k3")

    assert rejected("k1").pk == first.pk  # a repeated request is answered as before
    assert Task.objects.count() == 2


def test_a_large_message_is_stored_alone(client, consolidate, monkeypatch):
    """A batch of them would not fit into one statement."""
    seen: list[int] = []
    monkeypatch.setattr(fast_path.sends, "_run_all", lambda batch: seen.append(len(batch)))

    large = asyncio.run(send(client, metadata={"padding": "x" * LARGEST_IN_BATCH}))

    assert large.json()["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert seen == []


# --- two processes with the same keys ---------------------------------------------------------


def insert_like(task: Task, key: str) -> None:
    """As another process does, for a request of the same agent."""
    copy = Task.objects.get(pk=task.pk)
    copy.pk, copy.idempotency_key, copy._state.adding = uuid4(), key, True
    copy.save()


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_keys_are_inserted_in_the_same_order_by_every_process(client, consolidate):
    in_one_batch([new(client, "k0")])
    first = Task.objects.get()

    with ThreadPoolExecutor() as pool:
        with atomic():
            insert_like(first, "k1")
            batch = pool.submit(
                in_one_batch, [new(client, "k3"), new(client, "k2"), new(client, "k1")]
            )
            until(waits_for_a_lock, 10)
            insert_like(first, "k2")  # would end in a deadlock if the batch had inserted it
        k3, k2, k1 = batch.result(30)

    assert (k1, k2) == (None, None)
    assert json.loads(k3)["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"


def test_a_batch_that_loses_a_deadlock_is_inserted_all_the_same(client, consolidate):
    in_one_batch([new(client, "k0")])
    first = Task.objects.get()

    with ThreadPoolExecutor() as pool:
        with atomic():
            with connection.cursor() as cursor:  # so that PostgreSQL ends the batch, not this one
                cursor.execute("SET LOCAL deadlock_timeout = '60s'")
            insert_like(first, "k2")
            batch = pool.submit(
                in_one_batch, [new(client, "k1"), new(client, "k2"), new(client, "k3")]
            )
            until(waits_for_a_lock, 10)
            insert_like(first, "k1")
        k1, k2, k3 = batch.result(30)

    assert (k1, k2) == (None, None)
    assert json.loads(k3)["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
