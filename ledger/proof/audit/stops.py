"""Brakes, proved: each is as its events sealed it, and no deadline was put off without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from ledger import seals
from ledger.events import ChangeKind, chain_of
from ledger.models import Brake, Event
from ledger.proof.audit.histories import History
from ledger.seals import EPOCH, MICROSECOND, Link
from ledger.states import EventKind
from ledger.transactions import moved_by

# Between the time of a brake and that of its event.
TOLERANCE = timedelta(seconds=5)
BEGINNINGS = frozenset({EventKind.CLAIMED, EventKind.HANDED_OVER, EventKind.PERMIT_ISSUED})


@dataclass(frozen=True, slots=True)
class Stop:
    """One brake as its events sealed it; ``ended`` is ``None`` while it stands."""

    links: list[Link]

    @property
    def scope(self) -> tuple[str, str, str]:
        says = self.links[0].says
        return self.links[0].tenant, str(says.get("agent", "")), str(says.get("tool", ""))

    @property
    def until(self) -> str:
        return str(self.links[0].says.get("until", ""))

    @property
    def lifted(self) -> Link | None:
        return next((link for link in self.links if link.kind == ChangeKind.BRAKE_LIFTED), None)

    def is_over(self, row: Any) -> bool:
        of_row = (row.tenant, row.proposed_by, row.tool)
        return all(part in ("", own) for part, own in zip(self.scope, of_row, strict=True))

    def stands_at(self, moment: datetime) -> bool:
        """True if it stood then, and for some seconds before: who began just then was in time."""
        begin, end = self.within(EPOCH, moment)
        return begin + TOLERANCE < moment and end == moment

    def within(self, begin: datetime, end: datetime) -> tuple[datetime, datetime]:
        ends = [end]
        if self.until.isdecimal():
            ends.append(EPOCH + int(self.until) * MICROSECOND)
        if self.lifted is not None:
            ends.append(self.lifted.at)
        return max(self.links[0].at, begin), min(ends)


class Stops:
    """The sealed events of all brakes; they are few."""

    def __init__(self) -> None:
        kinds = [ChangeKind.BRAKE_PUT, ChangeKind.BRAKE_LIFTED]
        rows = Event.objects.filter(kind__in=kinds).order_by("subject", "seq")
        links = (Link(*values) for values in rows.values_list(*Link._fields))
        chains = ((subject, [*chain]) for subject, chain in groupby(links, attrgetter("subject")))
        self._stops: dict[UUID, Stop] = {
            subject: Stop(chain)
            for subject, chain in chains
            if chain[0].kind == ChangeKind.BRAKE_PUT
        }

    def faults(self) -> Iterator[str]:
        """Brakes that are not what their events sealed."""
        left = dict(self._stops)
        for brake in Brake.objects.order_by("pk"):
            stop = left.pop(chain_of(f"brake:{brake.pk}"), None)
            if stop is None or _as_sealed(stop) != _as_kept(brake, stop):
                yield f"brake {brake.pk} is not what its events sealed."
        for stop in left.values():
            yield f"the brake of event {stop.links[0].id} is missing."

    def faults_of(self, history: History) -> Iterator[str]:
        """A transaction that began under a brake, or was put off by more than brakes stopped it."""
        row = history.rows.get("transaction")
        for number, link in enumerate(history.links if row is not None else []):
            name = f"event {link.id} of transaction {link.subject}"
            if link.kind in BEGINNINGS and self._is_stopped(row, link.at):
                yield f"{name}: it began under a brake."
            if link.kind != EventKind.DEADLINE_MOVED:
                continue
            stopped = self._time_stopped(row, link.at) + TOLERANCE
            if moved_by(history.links, number) * MICROSECOND > stopped:
                yield f"{name}: the deadline was put off by more than the brakes over it stood."

    def _is_stopped(self, row: Any, moment: datetime) -> bool:
        stops = self._stops.values()
        return any(stop.stands_at(moment) and stop.is_over(row) for stop in stops)

    def _time_stopped(self, row: Any, upto: datetime) -> timedelta:
        over = [stop for stop in self._stops.values() if stop.is_over(row)]
        total, reached = timedelta(), row.created_at
        for begin, end in sorted(stop.within(row.created_at, upto) for stop in over):
            total += max(end - max(begin, reached), timedelta())
            reached = max(reached, end)
        return total


def _as_sealed(stop: Stop) -> tuple[object, ...]:
    put, lifted = stop.links[0], stop.lifted
    return (
        *stop.scope,
        put.reason,
        (put.principal, put.principal_name),
        stop.until,
        put.says.get("keeps", False),
        put.says.get("is_hold", False),
        (lifted.principal, lifted.principal_name) if lifted else ("", ""),
        True,
    )


def _as_kept(brake: Brake, stop: Stop) -> tuple[object, ...]:
    lifted = stop.lifted
    times = [(brake.at, stop.links[0].at)]
    if brake.lifted_at is not None and lifted is not None:
        times.append((brake.lifted_at, lifted.at))
    return (
        brake.tenant,
        brake.agent,
        brake.tool,
        brake.why,
        (brake.by, brake.by_name),
        seals.as_text(brake.until),
        brake.keeps,
        brake.is_hold,
        (brake.lifted_by, brake.lifted_by_name),
        all(abs(kept - sealed) < TOLERANCE for kept, sealed in times),
    )
