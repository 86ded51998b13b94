"""Whoever does not answer is asked no more until it gives a sign of life."""

from __future__ import annotations

import threading

import pytest

from ledger.foundation.breakers import Breaker
from tests.processes import until


class Away(Exception):
    pass


class Neighbour:
    """Asked for a sign of life, it waits until the test says how it answers."""

    def __init__(self) -> None:
        self.breaker = Breaker("The neighbour", self.gives_sign, Away)
        self.asked, self._answers = 0, threading.Semaphore(0)
        self._sign: bool | Exception = False

    def gives_sign(self) -> bool:
        self.asked += 1
        assert self._answers.acquire(timeout=20)
        if isinstance(self._sign, Exception):
            raise self._sign
        return self._sign

    def answer(self, sign: bool | Exception) -> None:
        self._sign = sign
        self._answers.release()


@pytest.fixture
def neighbour():
    made = Neighbour()
    yield made
    made.answer(True)


def test_a_failure_is_not_repeated_until_there_is_a_sign_of_life(neighbour):
    neighbour.breaker.refuse()

    neighbour.breaker.open(OSError("refused"))

    with pytest.raises(Away, match="The neighbour did not answer a moment ago"):
        neighbour.breaker.refuse()
    neighbour.answer(True)
    until(lambda: not neighbour.breaker.is_open)


def test_who_is_slow_is_asked_first_and_only_once_at_a_time(neighbour):
    for _ in range(3):
        neighbour.breaker.doubt()
    until(lambda: neighbour.asked)
    assert not neighbour.breaker.is_open

    neighbour.answer(False)

    until(lambda: neighbour.breaker.is_open)
    until(lambda: neighbour.asked == 2)
    neighbour.answer(True)
    until(lambda: not neighbour.breaker.is_open)
    assert neighbour.asked == 2


def test_who_answers_others_meanwhile_is_alive(neighbour):
    neighbour.breaker.doubt()
    until(lambda: neighbour.asked)
    neighbour.breaker.heard()

    neighbour.answer(False)
    until(lambda: not _is_probed())

    assert not neighbour.breaker.is_open


def test_a_question_that_fails_by_itself_does_not_keep_it_shut_out(neighbour):
    neighbour.breaker.open(OSError("refused"))
    neighbour.answer(RuntimeError("no more files"))
    until(lambda: neighbour.asked == 2)

    neighbour.answer(True)

    until(lambda: not neighbour.breaker.is_open)


def _is_probed() -> bool:
    return any(thread.name == "The neighbour probe" for thread in threading.enumerate())


def test_without_a_thread_to_ask_it_stays_closed_and_the_next_failure_opens_it(
    neighbour, monkeypatch
):
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        neighbour.breaker.open(OSError("refused"))
    neighbour.breaker.refuse()

    neighbour.breaker.open(OSError("refused"))
    assert neighbour.breaker.is_open
    neighbour.answer(True)
    until(lambda: not neighbour.breaker.is_open)
