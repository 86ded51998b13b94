"""Streams: one coroutine each, which reads what is new and nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from a2a.types import a2a_pb2 as pb
from django.db import connection, connections
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a import tasks
from a2a.models import Artifact
from a2a.protocol import stream, updates
from a2a.protocol.updates import Since
from ledger.api.waiting.waiters import Kind, waiters
from ledger.models import AgentToken, Scope
from tests.a2a.test_protocol import Peer
from tests.asgi import request

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def peer(orchestrator):
    return Peer(orchestrator, Scope.SUBMIT)


@pytest.fixture(autouse=True)
def _closes_connections():
    yield
    connections.close_all()


def subscribed(peer: Peer, task: Any, **changes: Any) -> Any:
    call = {
        "jsonrpc": "2.0",
        "id": "s",
        "method": "SubscribeToTask",
        "params": {"id": str(task.pk)},
    }
    headers = {"A2A-Version": "1.0"}
    return request("POST", "/a2a/v1", peer.token, json={**call, **changes}, headers=headers)


def events_of(answer: Any) -> list[Any]:
    lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines]


def without_defaults(value: Any) -> Any:
    """As the SDK reads it: protobuf leaves out members that are empty or false."""
    if isinstance(value, pb.StreamResponse):
        value = MessageToDict(value)
    if isinstance(value, dict):
        return {name: without_defaults(item) for name, item in value.items() if item}
    return [without_defaults(item) for item in value] if isinstance(value, list) else value


async def while_it_streams(happens: Any, *streams: Any) -> list[Any]:
    answers = asyncio.gather(*streams)
    while waiters.of_kind(Kind.STREAM) < len(streams):
        await asyncio.sleep(0.01)
    await stream.snapshots.ask(uuid4())  # after those of the streams
    await asyncio.to_thread(lambda: (happens(), connections.close_all()))
    return await asyncio.wait_for(answers, 20)


@pytest.fixture
def held(worker, a_claimed_task):
    """A claimed task, and what its worker sends with each request."""
    task = a_claimed_task()
    return task, {"agent": worker.principal, "fencing_token": task.fencing_token, "via": "api"}


def test_a_stream_tells_the_same_in_each_binding(peer, held):
    task, holder = held

    def work() -> None:
        tasks.report(task.pk, **holder, stage="reading", percent=10, note="")
        tasks.add_artifact(task.pk, **holder, artifact_id="a", parts=[{"text": "x"}])
        tasks.complete(task.pk, **holder, result={"summary": "ok"})

    headers = {"A2A-Version": "1.0"}
    path = f"/a2a/rest/tasks/{task.pk}:subscribe"
    rest = request("POST", path, peer.token, headers=headers)
    # A further member makes a request unusual, so that it is checked alone.
    unusual = {"params": {"id": str(task.pk), "tenant": "acme"}}
    streams = subscribed(peer, task), subscribed(peer, task, **unusual), rest
    usual, alone, plain = asyncio.run(while_it_streams(work, *streams))

    assert usual.headers["content-type"] == plain.headers["content-type"]
    told = [event["result"] for event in events_of(usual)]
    assert told == [event["result"] for event in events_of(alone)] == events_of(plain)
    assert len(told) == 5
    for event in told:
        assert without_defaults(ParseDict(event, pb.StreamResponse())) == without_defaults(event)


def test_a_stream_of_an_ended_or_unknown_task_is_refused(peer, held):
    task, holder = held
    tasks.complete(task.pk, **holder, result={"summary": "ok"})

    ended = asyncio.run(subscribed(peer, task)).json()
    unknown = asyncio.run(subscribed(peer, AgentToken.objects.get(), id=1)).json()

    assert ended["error"]["code"] == -32004
    assert unknown["error"]["code"] == -32001


def test_a_stream_with_a_revoked_token_ends_without_a_word(peer, held):
    task, holder = held

    def revoke_and_complete() -> None:
        AgentToken.objects.update(revoked_at=Now())
        tasks.complete(task.pk, **holder, result={"summary": "secret"})

    (answer,) = asyncio.run(while_it_streams(revoke_and_complete, subscribed(peer, task)))

    assert [list(each["result"]) for each in events_of(answer)] == [["task"]]


def test_a_stream_tells_an_event_whose_signal_was_lost(peer, held, monkeypatch):
    task, holder = held
    monkeypatch.setattr(stream.changes, "_ring", lambda subject: None)
    monkeypatch.setattr(stream, "QUIET_S", 0.2)

    def complete() -> None:
        tasks.complete(task.pk, **holder, result={"summary": "done"})

    (answer,) = asyncio.run(while_it_streams(complete, subscribed(peer, task)))

    assert len(events_of(answer)) > 1


def test_a_thousand_streams_need_no_more_queries_than_one(peer, held):
    task, holder = held
    tasks.report(task.pk, **holder, stage="reading", percent=10, note="")

    with CaptureQueriesContext(
        connection,
    ) as of_one:
        updates.updates_since([Since(peer.token, task.pk, 0)])
    with CaptureQueriesContext(connection) as of_many:
        results = updates.updates_since([Since(peer.token, task.pk, n % 3) for n in range(1000)])

    assert len(of_many) == len(of_one)
    assert [len(result.bodies) for result in results[:3]] == [3, 2, 1]


def test_an_append_reads_and_writes_its_own_parts_only(peer, held):
    task, holder = held

    def append(number: int) -> tuple[int, int, Any]:
        """Statements and bytes of one append, and what a stream is told of it."""
        part = {"text": f"{number:05} " + "x" * 500}
        with CaptureQueriesContext(connection) as queries:
            tasks.add_artifact(task.pk, **holder, artifact_id="a", parts=[part], append=True)
        seq = task.events.last().seq
        with CaptureQueriesContext(connection) as reads:
            (told,) = updates.updates_since([Since(peer.token, task.pk, seq - 1)])
        size = sum(len(query["sql"]) for query in [*queries, *reads])
        return len(queries) + len(reads), size, told.bodies

    append(0)
    early = append(1)
    for number in range(2, 60):
        append(number)
    late = append(60)

    assert late[0] == early[0]
    assert late[1] < early[1] + 100
    (update,) = late[2]
    assert update["artifactUpdate"]["artifact"]["parts"] == [{"text": "00060 " + "x" * 500}]
    assert update["artifactUpdate"]["append"] is True
    assert len(json.dumps(late[2])) < len(json.dumps(early[2])) + 10
    assert [part["text"][:5] for part in Artifact.objects.get().parts] == [
        f"{number:05}" for number in range(61)
    ]
