from __future__ import annotations

import doctest
from datetime import timedelta

from hypothesis import assume, given, strategies as st

from ledger.foundation import backoff
from ledger.foundation.backoff import Backoff

waits = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365))
backoffs = st.builds(Backoff, first=waits, longest=waits)
failures = st.integers(min_value=0, max_value=10_000)


@given(backoffs, failures)
def test_each_wait_is_twice_the_one_before_until_the_longest(backoff, failures):
    assume(failures >= 1)

    assert backoff.wait(failures + 1) == min(backoff.wait(failures) * 2, backoff.longest)


@given(backoffs)
def test_the_first_wait_comes_after_one_failure_and_after_none(backoff):
    assert backoff.wait(0) == backoff.wait(1) == min(backoff.first, backoff.longest)


@given(backoffs)
def test_the_longest_wait_is_reached(backoff):
    assume(backoff.first)

    assert backoff.wait(10_000) == backoff.longest


@given(backoffs, failures)
def test_jitter_shortens_by_a_fifth_at_most(backoff, failures):
    whole = backoff.wait(failures)

    assert whole * 0.8 <= backoff.wait_with_jitter(failures) <= whole


def test_the_example_in_the_docstring_is_true():
    assert doctest.testmod(backoff).failed == 0
