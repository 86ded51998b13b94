"""Two workers of one transaction: the first still waits for its answer when the second asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connections
from django.db.models.functions import Now

from ledger import execution
from ledger.models import Transaction
from ledger.states import State
from ledger.workers import sweeper
from tests.processes import until


@dataclass
class TwoAnswers:
    """What a service answers: to the first worker once it may, to the second at once, or when
    ``second_may`` is cleared, once that may too."""

    first: Any
    second: Any
    first_may: threading.Event = field(default_factory=threading.Event)
    second_may: threading.Event = field(default_factory=threading.Event)
    asked: list[Any] = field(default_factory=list)

    def __call__(self, handler: Any) -> Any:
        self.asked.append(handler)
        is_first = len(self.asked) == 1
        (self.first_may if is_first else self.second_may).wait(30)
        answer = self.first if is_first else self.second
        return answer(handler) if callable(answer) else answer


def at_work(row: Transaction) -> threading.Thread:
    """A worker that carries the row out, in a thread of its own."""

    def work() -> None:
        try:
            execution.commit(row.pk)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def lose_lease(row: Transaction) -> None:
    """The lease runs out, and the sweeper takes the worker for dead."""

    def is_noticed() -> bool:
        at_work = Transaction.objects.filter(pk=row.pk, state=State.COMMITTING)
        at_work.update(lease_expires_at=Now() - timedelta(seconds=1))
        sweeper.doubt_lapsed_leases()
        return Transaction.objects.get(pk=row.pk).state == State.IN_DOUBT

    until(is_noticed)
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())


def late_after_the_second(row: Transaction, answers: TwoAnswers) -> Transaction:
    """The second worker is answered first; only then is the first."""
    answers.second_may.set()
    return _with_two(row, answers, lambda: None)


def late_before_the_second(row: Transaction, answers: TwoAnswers) -> Transaction:
    """The first worker is answered while the second still waits for its answer."""
    return _with_two(row, answers, answers.second_may.set)


def _with_two(row: Transaction, answers: TwoAnswers, then: Callable[[], None]) -> Transaction:
    first = at_work(row)
    until(lambda: len(answers.asked) == 1)
    lose_lease(row)
    second = at_work(row)
    until(lambda: len(answers.asked) == 2)
    if answers.second_may.is_set():
        second.join(30)
    answers.first_may.set()
    first.join(30)
    then()
    second.join(30)
    assert not first.is_alive()
    assert not second.is_alive()
    return Transaction.objects.get(pk=row.pk)
