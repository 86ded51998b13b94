"""Deadlines as events sealed them: at first, and after each move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ledger import seals, states
from ledger.seals import Link

MOVED = states.MOVE_DEADLINE.kind


def as_prepared(links: Sequence[Link]) -> str | None:
    """The deadline that the first event sealed, as text; ``None`` if it was never moved."""
    moves = (link for link in links if link.kind == MOVED)
    return next((str(link.says.get("from")) for link in moves), None)


def deadline_at(row: Any, links: Sequence[Link], number: int) -> str:
    """The deadline, as text, that the events before this one had sealed."""
    moved = [_set_by(link) for link in links[:number] if link.kind == MOVED]
    return moved[-1] if moved else as_prepared(links) or seals.as_text(row.expires_at)


def is_late(row: Any, links: Sequence[Link], number: int) -> bool:
    """True if this event came after the time to decide was up."""
    deadline = deadline_at(row, links, number)
    return not deadline.isdecimal() or int(seals.as_text(links[number].at)) > int(deadline)


def deadline_faults(row: Any, links: Sequence[Link]) -> Iterator[str]:
    """Check that each move goes on where the one before it left off, and by no more than the time
    that had passed; and that the row has the last one. The brakes are proved elsewhere."""
    for number, link in enumerate(links):
        if link.kind != MOVED:
            continue
        if str(link.says.get("from")) != deadline_at(row, links, number):
            yield f"event {link.id}: the deadline that was moved is not the sealed one."
        if (
            not 0
            < moved_by(links, number)
            <= _microseconds(link.at) - _microseconds(row.created_at)
        ):
            yield f"event {link.id}: the deadline was moved by more than the time that had passed."
    if seals.as_text(row.expires_at) != deadline_at(row, links, len(links)):
        yield f"transaction {row.id}: expires_at is not what its events sealed."


def moved_by(links: Sequence[Link], number: int) -> int:
    """By how many microseconds the deadline is later after this event than as prepared."""
    first, now = as_prepared(links) or "", _set_by(links[number])
    return int(now) - int(first) if first.isdecimal() and now.isdecimal() else 0


def put_off_s(links: Sequence[Link], at: datetime) -> float:
    """By how many seconds the deadline had been moved by then."""
    moves = [n for n, link in enumerate(links) if link.kind == MOVED and link.at <= at]
    return moved_by(links, moves[-1]) / 10**6 if moves else 0


def _set_by(link: Link) -> str:
    sets = link.says.get("sets")
    return str(sets.get("expires_at")) if isinstance(sets, dict) else ""


def _microseconds(at: datetime) -> int:
    return int(seals.as_text(at))
