"""Every state and every move: either it moves, or it is refused and nothing was written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import IntegrityError
from django.db.transaction import atomic

from ledger import states
from ledger.errors import NotPossible
from ledger.models import Event, Transaction
from ledger.principals import WORKER
from ledger.states import MOVES, State
from ledger.transactions.transitions import advance
from tests.cases import Failures
from tests.tables import taken_back

MOVES_BETWEEN = [move for move in MOVES if move.sources]


def test_a_move_leads_where_the_map_says(a_payment):
    row, failures = a_payment(), Failures()
    for state, move in itertools.product(State, MOVES_BETWEEN):
        if state in move.sources:
            with in_state(row, state), failures.of(f"{move} of {state}"):
                moved = advance(row.pk, move, by=WORKER, via="system")
                assert (moved.state, moved.events.last().kind) == (move.target or state, move.kind)

    assert not failures


def test_every_other_move_is_refused_without_a_trace(a_payment):
    row, failures = a_payment(), Failures()
    for state in State:
        with in_state(row, state):
            for move in (move for move in MOVES_BETWEEN if state not in move.sources):
                with failures.of(f"{move} of {state}"), pytest.raises(NotPossible) as refusal:
                    advance(row.pk, move, by=WORKER, via="system")
                with failures.of(f"the answer to {move} of {state}"):
                    assert refusal.value.snapshot.state == state
            with failures.of(f"a trace in {state}"):
                assert Transaction.objects.get(pk=row.pk).state == state
                assert Event.objects.filter(transaction=row).count() == 1

    assert not failures


@contextmanager
def in_state(row: Transaction, state: State) -> Iterator[None]:
    with taken_back():
        Transaction.objects.filter(pk=row.pk).update(state=state, receipt="re_1")
        yield


def test_every_state_can_be_reached_and_every_open_one_left():
    reached = {move.target for move in MOVES if move.target}
    left = {state for move in MOVES if move.target for state in move.sources}

    assert reached == set(State)
    # A receipt that comes late leads out of what had ended without effect.
    late = states.KEEP_RECEIPT.sources
    assert set(State) - left == states.FINAL - {State.COMMITTED} - late


def test_the_database_itself_refuses_a_commit_without_receipt(a_payment):
    row = a_payment()

    with pytest.raises(IntegrityError, match="ledger_tx_no_commit_without_receipt"), atomic():
        Transaction.objects.filter(pk=row.pk).update(state=State.COMMITTED)


def test_the_database_itself_refuses_a_state_that_is_not_on_the_map(a_payment):
    row = a_payment()

    with pytest.raises(IntegrityError, match="ledger_tx_state_is_on_the_map"), atomic():
        Transaction.objects.filter(pk=row.pk).update(state="paid")
