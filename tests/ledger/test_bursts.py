"""A burst is far more in an hour, or on a day, than before; quiet hours after it are not in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from ledger.reporting.usage.bursts import AT_LEAST, DAYS_KNOWN, Burst, burst_at

AT = datetime(2026, 11, 27, 14, 30, tzinfo=UTC)  # a Friday


def hours(**numbers):
    """``at_14=3``: three requests between two and three o'clock."""
    return [numbers.get(f"at_{hour}", 0) for hour in range(24)]


def history(today, *, days=20, **usual):
    past = {AT.date() - timedelta(days=ago): hours(**usual) for ago in range(1, days + 1)}
    return past | {AT.date(): hours(**today)}


def test_far_more_in_an_hour_than_on_busy_days_is_a_burst():
    days = history({"at_14": 41}, at_9=20)

    assert burst_at(days, AT) == Burst(41, is_within_hour=True)
    assert burst_at(history({"at_14": 40}, at_9=20), AT) is None
    assert burst_at(history({"at_14": 40}, at_9=20), AT, itself=1) == Burst(41, is_within_hour=True)


@pytest.mark.parametrize("hour", [13, 15, 20])
def test_requests_of_quiet_hours_beside_a_burst_are_not_in_it(hour):
    days = history({"at_14": 430, f"at_{hour}": 4}, at_9=5)

    assert burst_at(days, AT.replace(hour=hour)) is None


def test_ten_in_an_hour_are_no_burst_whatever_is_usual():
    assert burst_at(history({"at_14": AT_LEAST}, at_9=1), AT) is None
    assert burst_at(history({"at_14": AT_LEAST + 1}, at_9=1), AT) is not None


def test_an_agent_of_which_too_little_is_known_has_no_bursts():
    assert burst_at(history({"at_14": 430}, days=DAYS_KNOWN - 1, at_9=2), AT) is None
    assert burst_at(history({"at_14": 430}, days=DAYS_KNOWN, at_9=2), AT) is not None
    assert burst_at({}, AT, itself=1) is None


def test_a_day_on_which_every_hour_is_busy_is_a_burst_from_twice_a_busy_day():
    day = {f"at_{hour}": 8 for hour in range(8, 15)}

    assert burst_at(history(day, at_9=5, at_10=5), AT) == Burst(56, is_within_hour=False)
    assert burst_at(history(day, at_9=5, at_10=5), AT.replace(hour=9)) is None
    calm = day | {"at_14": 5}
    assert burst_at(history(calm, at_9=5, at_10=5), AT) is None


def test_the_day_after_a_burst_is_compared_with_the_other_days():
    days = history({"at_14": 50}, at_9=5)
    days[AT.date() - timedelta(days=1)] = hours(at_14=400)

    assert burst_at(days, AT) == Burst(50, is_within_hour=True)


def test_what_happens_every_week_is_usual_in_its_second_week():
    days = history({"at_14": 40}, at_9=3)
    assert burst_at(days, AT) is not None

    days[AT.date() - timedelta(weeks=1)] = hours(at_15=40)

    assert burst_at(days, AT) is None
    assert burst_at(days | {AT.date(): hours(at_11=40)}, AT.replace(hour=11)) is not None


def test_what_happened_on_two_days_before_is_usual():
    days = history({"at_14": 60}, at_9=3)
    for ago in (3, 12):
        days[AT.date() - timedelta(days=ago)] = hours(at_8=40)

    assert burst_at(days, AT) is None


def test_hours_are_those_of_utc():
    local = AT.astimezone(timezone(timedelta(hours=9)))

    days = history({"at_14": 41}, at_9=20)

    assert burst_at(days, local) == burst_at(days, AT)


@given(st.lists(st.lists(st.integers(0, 500), min_size=24, max_size=24), min_size=6, max_size=30))
def test_no_hour_like_two_busy_days_before_is_a_burst(numbers):
    *past, today = numbers
    days = {AT.date() - timedelta(days=ago + 1): each for ago, each in enumerate(past)}
    second = sorted(map(max, past))[-2]
    days[AT.date()] = [min(number, second) for number in today]

    assert burst_at(days, AT) is None
