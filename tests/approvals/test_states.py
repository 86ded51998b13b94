"""One table words each state: people and agents read the same of it everywhere."""

from __future__ import annotations

import pytest
from django.utils import translation

from a2a.states import TaskState
from approvals.presentation import labels, states
from ledger.models import Transaction
from ledger.states import Ending, State
from ledger.transactions.outcomes import BY_STATE, outcome_of


def test_each_state_and_each_ending_has_one_row():
    assert set(states.TRANSACTIONS) == set(State)
    assert set(states.TASKS) == set(TaskState)
    assert set(states.ENDINGS) == set(Ending)


@pytest.mark.parametrize("state", sorted(set(BY_STATE) - {State.HANDED_OVER}))
def test_an_agent_reads_the_words_that_people_read(state):
    sentence = outcome_of(Transaction(state=state)).sentence

    assert sentence.startswith(f"It is {states.state_label(Transaction(state=state))}")


@pytest.mark.parametrize("state", State)
def test_the_lists_name_a_state_by_its_label(state):
    row = Transaction(state=state)

    assert states.outcome_label(row).casefold() == State(state).label
    with translation.override("de"):
        assert states.state_label(row) != State(state).label
        assert states.state_sentence(row) != states.shown_state(row).sentence


@pytest.mark.parametrize("ending", Ending)
def test_what_was_let_go_of_is_named_by_its_ending(ending):
    row = Transaction(state=State.ABORTED, ending=ending)

    assert states.outcome_label(row) == labels.first_large(Ending(ending).label)
