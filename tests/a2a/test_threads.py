"""Operations outside of batches share threads fairly; look-ups wait for none of them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from django.db import connection
from django.db.transaction import atomic

from a2a import tasks
from a2a.models import Task
from a2a.protocol.threads import MOST_WAITING, lane_shared_by_agents
from a2a.tasks import questions
from ledger.errors import LimitReached
from ledger.foundation.lanes import Lane
from ledger.models import AgentToken, Scope
from tests.a2a.test_protocol import Peer
from tests.asgi import request

GREEDY, OTHER = "agent:acme/greedy", "agent:globex/other"
WITHIN_S = 30


@pytest.fixture
def threads() -> Lane:
    return lane_shared_by_agents("test", 4)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What slow operations wait for."""
    event = threading.Event()
    yield event
    event.set()


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), WITHIN_S))


def test_an_agent_leaves_threads_to_others_however_much_it_asks(threads, gate):
    async def story() -> None:
        greedy = [asyncio.create_task(threads.run(GREEDY, gate.wait)) for _ in range(50)]
        await asyncio.sleep(0)

        assert await threads.run(OTHER, str, 1) == "1"
        gate.set()
        assert all(await asyncio.gather(*greedy))

    run(story)


def test_agents_that_wait_are_served_in_turn(threads, gate):
    served: list[str] = []
    a_place = threading.Event()

    async def story() -> None:
        slow = [
            asyncio.create_task(threads.run(f"agent:acme/{name}", wait))
            for name, wait in zip("abcd", (a_place.wait, *[gate.wait] * 3), strict=True)
        ]
        await asyncio.sleep(0)
        waiting = [
            asyncio.create_task(threads.run(agent, served.append, agent))
            for agent in [GREEDY] * 20 + [OTHER]
        ]
        await asyncio.sleep(0)
        a_place.set()
        await asyncio.gather(*waiting)
        gate.set()
        await asyncio.gather(*slow)

    run(story)

    assert len(served) == 21
    assert served.index(OTHER) == 1, served


def test_what_an_agent_may_have_waiting_is_bounded(threads, gate):
    async def story() -> None:
        waiting = [
            asyncio.create_task(threads.run(GREEDY, gate.wait)) for _ in range(MOST_WAITING + 2)
        ]
        await asyncio.sleep(0)

        with pytest.raises(LimitReached):
            await threads.run(GREEDY, gate.wait)
        gate.set()
        assert all(await asyncio.gather(*waiting))

    run(story)


def test_an_operation_whose_client_left_keeps_its_thread_until_it_is_over(threads, gate):
    async def story() -> None:
        for _ in range(2):
            left = asyncio.create_task(threads.run(GREEDY, gate.wait))
            await asyncio.sleep(0)
            left.cancel()
        next_one = asyncio.create_task(threads.run(GREEDY, str, 1))
        gone = asyncio.create_task(threads.run(GREEDY, str, 2))
        done, _ = await asyncio.wait([next_one], timeout=0.2)
        assert not done

        gone.cancel()
        gate.set()
        assert await next_one == "1"
        assert await threads.run(GREEDY, str, 3) == "3"

    run(story)


# --- in the process ---------------------------------------------------------------------------


def rpc(token: str, method: str, **params: Any) -> Awaitable[httpx.Response]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"A2A-Version": "1.0"}
    return request("POST", "/a2a/v1", token, json=body, headers=headers)


@pytest.mark.django_db(transaction=True)
def test_operations_of_one_agent_that_hang_delay_no_other_agent(orchestrator, stranger):
    greedy = AgentToken.issue(orchestrator, scopes=[Scope.SUBMIT])[1]
    other = AgentToken.issue(stranger, scopes=[Scope.PROPOSE])[1]

    async def story() -> None:
        flood = [asyncio.create_task(rpc(greedy, "ListTasks")) for _ in range(40)]
        await asyncio.wait(flood, timeout=1)

        new_token = await request("GET", "/api/v1/tools", other)
        card = await rpc(other, "GetExtendedAgentCard")

        assert not any(each.done() for each in flood)
        assert new_token.status_code == 200
        assert card.json()["result"]["name"]

    with atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE a2a_task IN ACCESS EXCLUSIVE MODE")
        run(story)


@pytest.mark.django_db(transaction=True)
def test_a_page_of_tasks_costs_as_many_queries_as_one_task(
    orchestrator, consolidate, worker, django_assert_num_queries
):
    from a2a.protocol.task_pages import TaskQuery, list_tasks
    from tests.agents_at_work import caller_for

    peer, caller = Peer(orchestrator, Scope.SUBMIT), caller_for(orchestrator, Scope.SUBMIT)
    for _ in range(5):
        peer.send()
        work = tasks.claim(worker.principal, skills=[], via="api")
        held = {"agent": worker.principal, "fencing_token": work.fencing_token, "via": "api"}
        tasks.add_artifact(work.pk, **held, artifact_id="n", name="N", parts=[{"text": "a"}])
        questions.ask(work.pk, **held, text="Which?", form={"type": "string"})
    query = TaskQuery(history=3, with_artifacts=True)

    with django_assert_num_queries(6):
        page = list_tasks(query, caller)

    assert len(page.tasks) == Task.objects.count() == 5
    for body in page.tasks:
        read = peer.rpc("GetTask", {"id": body["id"], "historyLength": 3})["result"]
        assert json.loads(json.dumps(body)) == read
