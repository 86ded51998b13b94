"""Finds bursts: far more requests in an hour, or by then on a day, than on days before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

DAYS_KNOWN = 5  # before that nobody knows what is usual
AT_LEAST = 10
TIMES = 2  # as many as on a busy day

Hours = Sequence[int]  # requests in each hour of a day (UTC)


@dataclass(frozen=True, slots=True)
class Burst:
    """Number of requests in the hour in which this one came, or on its day until then."""

    number: int
    is_within_hour: bool


def burst_at(days: Mapping[date, Hours], at: datetime, itself: int = 0) -> Burst | None:
    """The burst that a request of that time belongs to; ``itself``: 1 if it is not yet counted.

    The busiest day but one says what is usual, so that one burst does not make the next one usual;
    and the same hour of the same weekday does, for what happens every week. Requests of quiet hours
    after a burst do not belong to it.
    """
    at = at.astimezone(UTC)
    past = [hours for day, hours in days.items() if day < at.date()]
    first = min(days, default=at.date())
    if (at.date() - first).days < DAYS_KNOWN:
        return None
    today = days.get(at.date(), [0] * 24)
    in_hour, by_then = today[at.hour] + itself, sum(today[: at.hour + 1]) + itself
    busy_day = _second(map(sum, past))
    busy_hour = max(_second(map(max, past)), _in_other_weeks(days, at))
    if in_hour > max(AT_LEAST, TIMES * busy_hour):
        return Burst(in_hour, is_within_hour=True)
    if in_hour > busy_hour and by_then > max(AT_LEAST, TIMES * busy_day):
        return Burst(by_then, is_within_hour=False)
    return None


def _in_other_weeks(days: Mapping[date, Hours], at: datetime) -> int:
    """The most in an hour at about this hour of the weeks before."""
    before = (days.get(at.date() - timedelta(weeks=week)) for week in range(1, 5))
    around = slice(max(0, at.hour - 1), at.hour + 2)
    return max((max(hours[around]) for hours in before if hours), default=0)


def _second(numbers: Iterable[int]) -> int:
    """The largest number but one; 0 if there is none."""
    _, second, *_ = [*sorted(numbers, reverse=True), 0, 0]
    return second
