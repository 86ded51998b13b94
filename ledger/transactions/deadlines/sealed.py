"""Deadlines as events sealed them: at first, and after each move.

Brakes put them off, people give more time, and while a question waits for the agent the clock
rests. An answer gives back what is left of that rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from ledger import seals, states
from ledger.seals import MICROSECOND, Link

MOVED = states.MOVE_DEADLINE.kind  # by brakes
EXTENDED = states.EXTEND.kind
ASKED = states.ASK.kind
ANSWERED = states.ANSWER.kind
MOVERS = frozenset({MOVED, EXTENDED, ASKED, ANSWERED})
# So long the clock rests for a question at the most.
LONGEST_REST = timedelta(hours=1)
# An answer is counted a little before its event has its time.
TOLERANCE_US = 5_000_000


def as_prepared(links: Sequence[Link]) -> str | None:
    """The deadline that the first event sealed, as text; ``None`` if it was never moved."""
    return next((str(link.says.get("from")) for link in links if moves_deadline(link)), None)


def moves_deadline(link: Link) -> bool:
    """True for an event with a deadline; a question may leave it as it is."""
    return link.kind == MOVED or (link.kind in MOVERS and "from" in link.says)


def has_open_question(links: Sequence[Link]) -> bool:
    """True while the last question of these events has no answer."""
    return open_question(links) is not None


def open_question(links: Sequence[Link]) -> Link | None:
    talk = [link for link in links if link.kind in {ASKED, ANSWERED}]
    return talk[-1] if talk and talk[-1].kind == ASKED else None


def left_of_rest(links: Sequence[Link], at: datetime) -> timedelta:
    """The part of the rest for the open questions of these events that is not over then."""
    last = max((n for n, link in enumerate(links) if link.kind == ANSWERED), default=-1)
    rests_until = links[0].at
    for link in links[last + 1 :]:
        if link.kind == ASKED and "from" in link.says:
            rests_until = max(rests_until, link.at) + timedelta(microseconds=_step(link))
    return max(rests_until - at, timedelta(0))


def deadline_at(row: Any, links: Sequence[Link], number: int) -> str:
    """The deadline, as text, that the events before this one had sealed."""
    moved = [_set_by(link) for link in links[:number] if moves_deadline(link)]
    return moved[-1] if moved else as_prepared(links) or seals.as_text(row.expires_at)


def is_late(row: Any, links: Sequence[Link], number: int) -> bool:
    """True if this event came after the time to decide was up."""
    deadline = deadline_at(row, links, number)
    return not deadline.isdecimal() or int(seals.as_text(links[number].at)) > int(deadline)


def deadline_faults(row: Any, links: Sequence[Link]) -> Iterator[str]:
    """Check that each move goes on where the one before it left off, and by no more than it may;
    and that the row has the last one. The brakes are proved elsewhere."""
    for number, link in enumerate(links):
        if not moves_deadline(link):
            continue
        if str(link.says.get("from")) != deadline_at(row, links, number):
            yield f"event {link.id}: the deadline that was moved is not the sealed one."
        if not _may_move(row, links, number):
            yield f"event {link.id}: the deadline was moved by more than it may be."
    if seals.as_text(row.expires_at) != deadline_at(row, links, len(links)):
        yield f"transaction {row.id}: expires_at is not what its events sealed."


def _may_move(row: Any, links: Sequence[Link], number: int) -> bool:
    link = links[number]
    step = _step(link)
    if link.kind == EXTENDED:
        return step > 0
    if link.kind == ASKED:
        return 0 < step <= LONGEST_REST // MICROSECOND
    if link.kind == ANSWERED:
        return 0 < -step <= left_of_rest(links[:number], link.at) // MICROSECOND + TOLERANCE_US
    passed = _microseconds(link.at) - _microseconds(row.created_at)
    return 0 < moved_by(links, number) <= passed


def moved_by(links: Sequence[Link], number: int) -> int:
    """By how many microseconds brakes have put the deadline off after this event."""
    return sum(_step(link) for link in links[: number + 1] if link.kind == MOVED)


def _step(link: Link) -> int:
    before, after = str(link.says.get("from")), _set_by(link)
    return int(after) - int(before) if before.isdecimal() and after.isdecimal() else 0


def put_off_s(links: Sequence[Link], at: datetime) -> float:
    """By how many seconds the deadline had been moved by then."""
    moves = [n for n, link in enumerate(links) if link.kind == MOVED and link.at <= at]
    return moved_by(links, moves[-1]) / 10**6 if moves else 0


def _set_by(link: Link) -> str:
    sets = link.says.get("sets")
    return str(sets.get("expires_at")) if isinstance(sets, dict) else ""


def _microseconds(at: datetime) -> int:
    return int(seals.as_text(at))
