"""The typed outcome, of every state and every ending."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.states import Ending, State
from ledger.transactions.outcomes import outcome_of
from tests.cases import Failures

ENDINGS = ("", *Ending.values)


def row(state: str, ending: str = "", **more: str) -> Any:
    return SimpleNamespace(
        **{"ending_reason": "", "receipt": "", "late_receipt": "", "error_source": None}
        | {"revision": 1, "asked_at": None}
        | {"state": state, "ending": ending, **more}
    )


# (kind, do_not_retry) of each state in which the ending does not matter.
BY_STATE = {
    State.PREPARED: ("pending", True),
    State.REFUSED: ("refused", False),
    State.APPROVED: ("pending", True),
    State.COMMITTING: ("pending", True),
    State.COMMITTED: ("succeeded", True),
    State.HANDED_OVER: ("handed_over", True),
    State.IN_DOUBT: ("in_doubt", True),
    State.COMPENSATING: ("pending", True),
    State.COMPENSATED: ("withdrawn", True),
}
# The others: while what was held is released, and after it.
BY_ENDING = {
    "": (("failed", True), ("failed", True)),
    "rejected": (("refused", True), ("refused", True)),
    "sent_back": (("pending", True), ("refused", False)),
    "outdated": (("pending", True), ("failed", False)),
    "expired": (("expired", True), ("expired", True)),
    "canceled": (("withdrawn", True), ("withdrawn", True)),
    "withdrawn": (("withdrawn", True), ("withdrawn", True)),
    "hold_lapsed": (("pending", True), ("expired", False)),
    "permit_lapsed": (("pending", True), ("expired", False)),
    "abandoned": (("pending", True), ("failed", False)),
    "failed": (("pending", True), ("failed", False)),
}


ENDED = {State.ROLLING_BACK, State.ABORTED, State.FAILED}


def test_each_state_and_each_ending_stands_in_these_tables():
    assert set(BY_STATE) | ENDED == set(State)
    assert set(BY_ENDING) == set(ENDINGS)


def expected(state: str, ending: str) -> tuple[str, bool]:
    if state in BY_STATE:
        return BY_STATE[State(state)]
    return BY_ENDING[ending][0 if state == State.ROLLING_BACK else 1]


def test_every_state_with_every_ending_has_its_typed_outcome_and_says_what_to_do_next():
    failures = Failures()
    for state, ending in itertools.product(State.values, ENDINGS):
        with failures.of(f"{state}, {ending}"):
            outcome = outcome_of(row(state, ending))

            assert (outcome.kind, outcome.do_not_retry) == expected(state, ending)
            assert outcome.is_final == (outcome.kind not in {"pending", "in_doubt"})
            assert outcome.as_json() == {
                "kind": outcome.kind,
                "is_final": outcome.is_final,
                "sentence": outcome.sentence,
                "do_not_retry": outcome.do_not_retry,
            }
            assert ("Do not propose it again" in outcome.sentence) == outcome.do_not_retry
            assert ("wait for the outcome" in outcome.sentence) == (not outcome.is_final)
            assert outcome.sentence.endswith(".")

    assert not failures


@pytest.mark.parametrize("state", ["rolling_back", "aborted", "failed"])
def test_a_receipt_that_came_too_late_makes_an_ending_doubtful(state):
    outcome = outcome_of(row(state, "failed", late_receipt="rc_1"))

    assert (outcome.kind, outcome.is_final, outcome.do_not_retry) == ("in_doubt", False, True)


def test_the_reason_of_a_rejection_and_the_receipt_reach_the_model():
    rejected = row("aborted", "rejected", ending_reason="Wrong customer.")
    done = row("committed", receipt="rc_7")

    assert 'with the reason: "Wrong customer.".' in outcome_of(rejected).sentence
    assert "The receipt is rc_7." in outcome_of(done).sentence


def test_whoever_is_not_the_proposer_learns_neither_reason_nor_receipt():
    rejected = row("aborted", "rejected", ending_reason="Wrong customer.")
    done = row("committed", receipt="rc_7")

    assert "Wrong customer" not in outcome_of(rejected, is_own=False).sentence
    assert "rc_7" not in outcome_of(done, is_own=False).sentence
