"""Budgets, proved: each total is the sum of what events sealed, and was within its limit then.

An event that charges a budget is written under the lock of its row, so all that is sealed of one
budget is in the order of the ids of events.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from decimal import Decimal
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from tempfile import TemporaryFile
from typing import IO, NamedTuple
from uuid import UUID

from ledger.models import Budget, Charge
from ledger.proof.audit import histories
from ledger.proof.audit.histories import History, Part
from ledger.seals import Link
from ledger.sign_off.rules import charge_from
from ledger.states import WITHOUT_EFFECT

AT_HAND = 100_000  # changes in memory; more of them are in files
Key = tuple[str, str, str, str]  # tenant, owner, measure, period
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)


class Change(NamedTuple):
    """A change of a budget that an event made; ``most`` is the limit of a charge."""

    event: int
    budget: Key
    amount: str
    most: str | None


class Totals:
    """Changes of budgets by the histories that were read."""

    def __init__(self) -> None:
        self._changes = _InOrder()
        self._budgets: set[Key] = set()
        self._read: set[UUID] = set()

    def faults_of(self, history: History) -> Iterator[str]:
        """Charges in the table that are not the sealed ones. Keeps what it changed in budgets."""
        is_charged = history.charges or any('"charges' in each.details for each in history.links)
        if not is_charged or history.subject in self._read:
            return
        try:
            changes = [*changes_in(history.links)]
        except UNREADABLE:
            yield f"transaction {history.subject}: its charges cannot be read."
            return
        taken = {each.budget: Decimal(each.amount) for each in changes if each.most is not None}
        times = Counter(each.budget for each in changes)  # taken, released, taken again
        sealed = {budget: (amount, times[budget] % 2 == 1) for budget, amount in taken.items()}
        kept = {
            (row.tenant, row.owner, row.measure, row.period): (row.amount, row.released_at is None)
            for row in history.charges
        }
        if kept != sealed:
            yield f"transaction {history.subject}: its charges are not what its events sealed."
        self._read.add(history.subject)
        self._budgets |= taken.keys()
        self._changes.add(changes)

    def read_others(self) -> None:
        """Read what else changed the budgets that were read of so far."""
        every = Budget.objects.order_by("pk")
        ids = [budget.pk for budget in every.iterator() if _key_of(budget) in self._budgets]
        if not ids:
            return
        rows = Charge.objects.filter(budget__in=ids).order_by("transaction_id").distinct()
        subjects = (subject for (subject,) in histories.stream(rows, ["transaction_id"]))
        others = (subject for subject in subjects if subject not in self._read)
        while batch := tuple(islice(others, histories.AT_ONCE)):
            of_batch = histories.links_in(Part(only=batch))
            for _subject, links in groupby(of_batch, key=attrgetter("subject")):
                with suppress(*UNREADABLE):  # found in its turn
                    changes = [*changes_in([*links])]
                    self._changes.add([each for each in changes if each.budget in self._budgets])

    def faults(self, *, of_all: bool) -> Iterator[str]:
        """Charges over a limit, and totals in the table that are not the sealed ones."""
        used: dict[Key, Decimal] = defaultdict(Decimal)
        for event, budget, amount, most in self._changes:
            used[budget] += Decimal(amount)
            if most is not None and used[budget] > Decimal(most):
                yield f"event {event}: it charges more than {most} of {' '.join(budget)}."
        for row in Budget.objects.order_by("pk").iterator():
            if (of_all or _key_of(row) in used) and used.pop(_key_of(row), 0) != row.used:
                yield f"budget {row.pk}, {row.owner}: used is not what events charged."
        for budget in used:
            yield f"budget {' '.join(budget)} is missing; events charged it."


def changes_in(links: Sequence[Link]) -> Iterator[Change]:
    """The changes that the events of one transaction made. Raises what is in ``UNREADABLE``.

    A charge counts until nothing came of it, and again once a receipt came late.
    """
    taken: list[tuple[Key, Decimal]] = []
    late_receipt, was_nothing = "", False
    for link in links:
        sets = link.says.get("sets", {})
        late_receipt = sets.get("late_receipt", late_receipt)
        is_nothing = link.to_state in WITHOUT_EFFECT and not late_receipt
        if link is not links[0] and is_nothing != was_nothing:
            for budget, amount in taken:
                yield Change(link.id, budget, str(-amount if is_nothing else amount), None)
        was_nothing = is_nothing
        terms = json.loads(sets.get("terms", "{}")) if link is links[0] else {}
        for sealed in [*((terms or {}).get("charges", ())), *link.says.get("charges", ())]:
            charge = charge_from(sealed)
            taken.append(((link.tenant, *charge.budget), charge.amount))
            yield Change(link.id, taken[-1][0], str(charge.amount), str(charge.most))


def _key_of(budget: Budget) -> Key:
    return budget.tenant, budget.owner, budget.measure, budget.period


class _InOrder:
    """Changes in the order of their events, most of them in files."""

    def __init__(self) -> None:
        self._at_hand: list[Change] = []
        self._files: list[IO[str]] = []

    def add(self, changes: Sequence[Change]) -> None:
        self._at_hand += changes
        if len(self._at_hand) >= AT_HAND:
            file = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
            file.writelines(f"{json.dumps(each)}\n" for each in sorted(self._at_hand, key=_EVENT))
            self._files.append(file)
            self._at_hand = []

    def __iter__(self) -> Iterator[Change]:
        with ExitStack() as opened:
            runs = [map(_change_from, opened.enter_context(file)) for file in self._files]
            for file in self._files:
                file.seek(0)
            yield from heapq.merge(*runs, sorted(self._at_hand, key=_EVENT), key=_EVENT)


_EVENT = itemgetter(0)


def _change_from(line: str) -> Change:
    event, budget, amount, most = json.loads(line)
    return Change(event, tuple(budget), amount, most)
