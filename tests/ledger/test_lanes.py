"""Lanes: bounds on what runs and waits, and threads that come and go."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import wait

import pytest

from ledger.foundation.lanes import Busy, Lane
from tests.processes import until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What slow work waits for."""
    event = threading.Event()
    yield event
    event.set()


def test_what_runs_at_once_and_of_one_never_exceeds_its_bounds_and_nothing_is_lost():
    lane = Lane("test", 4, most_of_one=2, stays_s=0.001)
    lock, running, exceeded = threading.Lock(), Counter[str](), list[str]()

    def work(whose: str, number: int) -> int:
        with lock:
            running[whose] += 1
            if running.total() > 4 or running[whose] > 2:
                exceeded.append(whose)
        if number % 7 == 0:
            threading.Event().wait(0.002)  # so that threads come to rest, and are needed again
        with lock:
            running[whose] -= 1
        return number

    def submit(seed: int) -> None:
        choose = random.Random(seed)
        jobs = [lane.start(w, work, w, n) for n in range(300) for w in [choose.choice("abc")]]
        for job in jobs[::10]:
            job.cancel()
        wait([job for job in jobs if not job.cancelled()], 30)
        assert all(job.cancelled() or job.result() == n for n, job in enumerate(jobs))

    submitters = [threading.Thread(target=submit, args=[seed]) for seed in range(3)]
    for each in submitters:
        each.start()
    for each in submitters:
        each.join(60)

    assert not exceeded
    assert lane.start("a", str, 1).result(10) == "1"
    assert not lane._places.waiting()
    until(lambda: not lane._places._taken and not lane._resting, what="all threads have ended")


def test_a_thread_that_cannot_be_started_takes_no_place(monkeypatch):
    lane, failures = Lane("test", 1), [RuntimeError("can't start new thread")]
    start = threading.Thread.start

    def start_or_fail(thread: threading.Thread) -> None:
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)

    with pytest.raises(RuntimeError):
        lane.start("", str, 1)
    assert lane.start("", str, 1).result(10) == "1"


def test_work_that_raises_stop_iteration_is_answered():
    """As ``next()`` does in a validator of a tool; no future of asyncio takes that."""
    lane = Lane("test", 1)

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(asyncio.wait_for(lane.run("", next, iter(())), 10))


def test_what_finds_no_room_to_wait_is_refused_at_once(gate):
    lane = Lane("test", 1, most_waiting=2, most_waiting_of_one=1, refusal=InterruptedError)
    jobs = [lane.start("a", gate.wait), lane.start("a", str, 1), lane.start("b", str, 2)]

    for whose in "ac":  # of the one too many wait, and of all together
        with pytest.raises(InterruptedError):
            lane.start(whose, str)
    jobs[2].cancel()
    jobs.append(lane.start("c", str, 3))
    gate.set()

    assert [job.result(10) for job in (*jobs[:2], jobs[3])] == [True, "1", "3"]


def test_what_waits_longer_than_it_may_is_refused_and_never_begins(gate):
    lane, begun = Lane("test", 1, within=0.05), list[int]()
    slow = lane.start("", gate.wait)

    with pytest.raises(Busy):
        asyncio.run(lane.run("", begun.append, 1))
    with pytest.raises(Busy):
        lane.run_sync("", lambda: begun.append(2), timeout=30)
    gate.set()

    assert slow.result(10)
    assert lane.run_sync("", str, timeout=10) == ""
    assert not begun


def test_who_waits_in_a_thread_is_told_when_the_work_takes_too_long(gate):
    lane = Lane("test", 1)

    with pytest.raises(TimeoutError):
        lane.run_sync("", gate.wait, timeout=0.05)


def test_work_has_a_thread_that_rests_or_else_a_new_one_and_what_it_held_is_given_back():
    given_back: list[int] = []
    lane = Lane("test", 2, stays_s=0.05, at_rest=lambda: given_back.append(threading.get_ident()))

    idents = {lane.run_sync("", threading.get_ident, timeout=10) for _ in range(20)}

    assert len(idents) == 1
    until(lambda: given_back == list(idents), what="the thread ended")
    assert lane.run_sync("", threading.get_ident, timeout=10)


def test_a_thread_that_cannot_give_back_what_it_had_hands_over_its_result_all_the_same():
    assert Lane("test", 1, at_rest=lambda: 1 / 0).run_sync("", lambda: 7, timeout=10) == 7
