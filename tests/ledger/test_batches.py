"""Batches: each thread keeps its session between them, and requests gather into larger ones."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection

from ledger.foundation import batches
from ledger.foundation.batches import Batcher, BatchLanes, batch_lanes
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


def session(_: list[Any] | None = None) -> int:
    """The process id of this thread's session in PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def is_open(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid])
        return cursor.fetchone() is not None


def sessions_of(lanes: BatchLanes, number: int) -> list[int]:
    """The sessions of so many batches, one after the other."""

    async def run_all() -> list[int]:
        return [await lanes.run(session) for _ in range(number)]

    return asyncio.run(run_all())


def test_batches_one_after_the_other_have_the_same_session():
    assert len(set(sessions_of(batch_lanes(1, late=0), 5))) == 1


def test_a_thread_without_a_batch_gives_its_session_back():
    lanes = batch_lanes(1, late=0, idle_s=0.1)

    (first,) = sessions_of(lanes, 1)
    until(lambda: not is_open(first), 10)

    assert sessions_of(lanes, 1) != [first]


def end_session(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_a_session_that_the_server_ended_is_replaced_before_a_batch_uses_it():
    lanes = batch_lanes(1, late=0)
    (lost,) = sessions_of(lanes, 1)
    end_session(lost)

    assert sessions_of(lanes, 1) != [lost]


@pytest.mark.parametrize("may_repeat", [True, False])
def test_a_batch_whose_session_ends_is_run_once_more_where_that_does_no_harm(may_repeat):
    ran: list[list[int]] = []

    def ends_at_first(requests: list[int]) -> list[int]:
        ran.append(requests)
        if len(ran) == 1:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return [request + session() * 0 for request in requests]

    async def ask() -> int:
        return await Batcher(ends_at_first, may_repeat=may_repeat).ask(7)

    if may_repeat:
        assert asyncio.run(ask()) == 7
    else:
        with pytest.raises(OperationalError):
            asyncio.run(ask())
    assert ran == [[7]] * (2 if may_repeat else 1)


def test_a_database_that_stands_still_is_not_asked_again_for_those_who_waited_for_it(monkeypatch):
    monkeypatch.setattr(batches, "AT_ONCE_S", 0.0)
    ran: list[list[int]] = []
    is_running, goes_on = threading.Event(), threading.Event()

    def stands_still(requests: list[int]) -> list[int]:
        ran.append(requests)
        is_running.set()
        goes_on.wait(20)
        raise OperationalError("the connection was lost")

    async def story() -> list[Any]:
        batcher = Batcher(stands_still)
        asked = [asyncio.create_task(batcher.ask(1))]
        await asyncio.to_thread(is_running.wait, 20)
        asked += [asyncio.create_task(batcher.ask(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        goes_on.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(story())

    assert [type(answer) for answer in answers] == [OperationalError] * 3
    assert ran == [[1]]


def test_two_batches_run_at_once_in_two_threads():
    lanes = batch_lanes(2, late=0)

    async def run_both() -> list[int]:
        together: list[asyncio.Future[int]] = [
            asyncio.ensure_future(lanes.run(slow_session)) for _ in range(2)
        ]
        return list(await asyncio.gather(*together))

    def slow_session() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.2)")
        return session()

    assert len(set(asyncio.run(run_both()))) == 2


def test_a_batch_waits_for_no_thread_that_hangs():
    lanes = batch_lanes(1, late=1, late_s=0.05)
    is_over = threading.Event()

    async def run_all() -> None:
        hanging = asyncio.create_task(lanes.run(is_over.wait))
        for number in range(3):  # one after the other, as there is one more thread
            assert await asyncio.wait_for(lanes.run(partial(str, number)), 10) == str(number)
        assert not hanging.done()
        is_over.set()
        assert await hanging

    try:
        asyncio.run(run_all())
    finally:
        is_over.set()


def test_so_many_batches_have_a_thread_of_their_own_and_no_more():
    lanes = batch_lanes(1, late=2, late_s=0.05)
    is_over = threading.Event()

    async def run_all() -> None:
        hanging = [asyncio.create_task(lanes.run(is_over.wait)) for _ in range(3)]
        waiting = asyncio.create_task(lanes.run(partial(str, 1)))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        is_over.set()
        assert await asyncio.wait_for(waiting, 10) == "1"
        assert all(await asyncio.gather(*hanging))

    try:
        asyncio.run(run_all())
    finally:
        is_over.set()


def test_clients_that_are_answered_together_are_in_one_batch_the_next_time():
    sizes: list[int] = []

    def count(requests: list[int]) -> list[int]:
        sizes.append(len(requests))
        return requests

    async def ask_again_and_again() -> None:
        batcher: Batcher[int, int] = Batcher(count)

        async def client() -> None:
            for number in range(50):
                await batcher.ask(number)

        await asyncio.gather(*(client() for _ in range(4)))

    asyncio.run(ask_again_and_again())

    assert sum(sizes) == 200
    assert sorted(sizes)[len(sizes) // 2] == 4, sizes


def test_one_client_alone_waits_for_nobody(monkeypatch):
    monkeypatch.setattr("ledger.foundation.batches.GATHER_S", 60)

    async def ask() -> list[int]:
        batcher: Batcher[int, int] = Batcher(lambda numbers: numbers)
        return [await batcher.ask(number) for number in range(3)]

    assert asyncio.run(asyncio.wait_for(ask(), 30)) == [0, 1, 2]


def plan_cache_mode() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW plan_cache_mode")
        return str(cursor.fetchone()[0])


def test_statements_of_batches_are_planned_once_and_the_session_forgets_that(monkeypatch):
    assert asyncio.run(batch_lanes(1, late=0).run(plan_cache_mode)) == "force_generic_plan"

    connection.close()
    batches._keep_plans()
    with monkeypatch.context() as patches:
        patches.setattr(connection, "close", lambda: None)  # as a pool, which keeps it open
        batches._give_back()
        assert plan_cache_mode() == "auto"
