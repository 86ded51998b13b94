"""Requests of several threads are done together, and one that fails harms no other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledger.foundation.batches import Combiner

SECONDS = 10.0


class Doing:
    """Doubles numbers; the first call waits until it is told to go on."""

    def __init__(self, refuses: Sequence[int] = (), fails_with: int | None = None) -> None:
        self.refuses, self.fails_with = refuses, fails_with
        self.calls: list[list[int]] = []
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, numbers: Sequence[int]) -> list[int | None]:
        self.calls.append([*numbers])
        if len(self.calls) == 1:
            self.has_begun.set()
            assert self.may_go_on.wait(SECONDS)
        if self.fails_with in numbers:
            raise ValueError(f"{self.fails_with} cannot be doubled")
        return [None if number in self.refuses else 2 * number for number in numbers]


def asked_together(doing: Doing, first: int, *others: int) -> list[Any]:
    """The results of all, where the others come while the first is being done; or a failure."""
    combiner: Combiner[int, int] = Combiner(doing, subject=abs)
    with ThreadPoolExecutor(1 + len(others)) as threads:
        futures = [threads.submit(combiner.ask, first)]
        assert doing.has_begun.wait(SECONDS)
        for number in others:
            futures.append(threads.submit(combiner.ask, number))
            while len(combiner._line) < len(futures) - 1:
                assert not futures[-1].done()
        doing.may_go_on.set()
        return [future.exception(SECONDS) or future.result() for future in futures]


def test_those_who_come_meanwhile_are_done_together():
    doing = Doing()
    assert asked_together(doing, 1, 2, 3, 4) == [2, 4, 6, 8]
    assert doing.calls == [[1], [2, 3, 4]]


def test_what_is_about_the_same_is_not_done_together():
    doing = Doing()
    assert asked_together(doing, 1, 2, -2, 3) == [2, 4, -4, 6]
    assert doing.calls == [[1], [2, 3], [-2]]


def test_of_those_that_are_not_done_together_each_is_tried_alone():
    doing = Doing(refuses=[3])
    assert asked_together(doing, 1, 2, 3, 4) == [2, 4, None, 8]
    assert doing.calls == [[1], [2, 3, 4], [3]]


def test_one_that_fails_harms_no_other():
    doing = Doing(fails_with=3)
    *_, of_three, of_four = asked_together(doing, 1, 2, 3, 4)
    assert (str(of_three), of_four) == ("3 cannot be doubled", 8)
    assert doing.calls[:2] == [[1], [2, 3, 4]]
    assert sorted(doing.calls[2:]) == [[2], [3], [4]]


def test_a_failure_of_one_alone_is_raised_and_the_next_goes_on():
    doing = Doing(fails_with=1)
    of_one, of_two = asked_together(doing, 1, 2)
    assert (str(of_one), of_two) == ("1 cannot be doubled", 4)


def test_who_asks_alone_does_it_in_its_own_thread():
    threads = []

    def do_all(requests: Sequence[int]) -> list[int | None]:
        threads.append(threading.current_thread())
        return [*requests]

    combiner: Combiner[int, int] = Combiner(do_all, subject=abs)
    assert combiner.ask(1) == 1
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("repetition", range(3))
def test_many_threads_lose_nothing(repetition: int):
    combiner: Combiner[int, int] = Combiner(
        lambda numbers: [2 * number for number in numbers], subject=lambda number: number % 100
    )
    with ThreadPoolExecutor(16) as threads:
        assert [*threads.map(combiner.ask, range(2000))] == [2 * n for n in range(2000)]
