"""Attacks on what waits, is changed and is looked at again; each stands for one that succeeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from examples import verify
from ledger import execution
from ledger.contracts import tools
from ledger.errors import NotAllowed, NotPossible
from ledger.models import Transaction
from ledger.principals import user
from ledger.proof.audit import decision_records, verification
from ledger.proof.log import checkpoints
from ledger.states import Ending, State
from ledger.transactions import coordinator
from ledger.transactions.coordinator import NotEditable
from ledger.transactions.renewal import renew_terms
from ledger.transactions.requests import revising, talk
from tests.conftest import propose
from tests.ledger.test_log_witness import LOG
from tests.requests.conftest import approve

pytestmark = pytest.mark.django_db
CAROL = user("4711", "Carol")
TWO_SIGN = {"when": {"tool": "reserve"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}}


def aged(row: Transaction) -> None:
    """As if it had been planned six minutes ago."""
    age = timedelta(minutes=6)
    Transaction.objects.filter(pk=row.pk).update(
        true_until=F("true_until") - age, planned_at=F("planned_at") - age
    )


def carried_out(row: Transaction) -> Transaction:
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


@pytest.fixture
def while_it_is_planned(the_world: Any) -> Callable[[Callable[[], object]], None]:
    """Something happens once, while a plan is made."""

    def register(work: Callable[[], object]) -> None:
        def do() -> None:
            the_world.planning = None
            work()

        the_world.planning = do

    return register


# A worker's plan was put in place of what had become another revision, or waited again.
def test_a_worker_does_not_revise_what_waits_again(
    activated, reserved, alice, the_world, while_it_is_planned
):
    approve(reserved, alice)
    aged(reserved)
    the_world.price = 120

    def tightened():
        activated(TWO_SIGN)
        renew_terms(reserved.pk)

    while_it_is_planned(tightened)
    row = carried_out(reserved)
    assert (row.state, row.revision) == (State.PREPARED, 1)
    verification.verify()


def test_a_worker_does_not_undo_what_a_person_changed_meanwhile(
    activated, reserved, edited, alice, bob, the_world, while_it_is_planned
):
    approve(reserved, alice)
    aged(reserved)
    the_world.price = 120

    def tightened_and_changed():
        activated(TWO_SIGN)
        renew_terms(reserved.pk)
        edited(Transaction.objects.get(pk=reserved.pk), bob, nights=3)

    while_it_is_planned(tightened_and_changed)
    row = carried_out(reserved)
    assert (row.revision, row.arguments["nights"]) == (2, 3)
    verification.verify()


# It stayed signed off for ever, was taken up again and again, and nobody was told why.
def test_an_old_one_that_was_tampered_with_fails_and_says_so(reserved, alice, the_world):
    approve(reserved, alice)
    aged(reserved)
    Transaction.objects.filter(pk=reserved.pk).update(amount=1)
    row = carried_out(reserved)
    assert row.state != State.APPROVED
    assert "changed after it was signed off" in row.error
    assert the_world.effects.total() == 0


# A plan that was made again made its author an approver like any other.
def test_who_changed_it_does_not_sign_it_after_it_was_planned_again(
    activated, reserved, edited, alice, bob, the_world
):
    activated(TWO_SIGN)
    renew_terms(reserved.pk)
    row = edited(Transaction.objects.get(pk=reserved.pk), nights=2)
    approve(row, bob)
    approve(row, CAROL)
    aged(row)
    the_world.price = 120
    again = carried_out(row)
    assert (again.state, again.revision) == (State.PREPARED, 3)
    with pytest.raises(NotAllowed, match="have changed it"):
        approve(again, alice)


# It was planned again in a loop, once for each turn of a worker, and never carried out.
def test_what_needs_no_second_look_any_more_is_carried_out(reserved, alice, monkeypatch):
    approve(reserved, alice)
    aged(reserved)
    tool = tools["reserve"]
    without = replace(tool.contract, plan_max_age=None, touches=())
    monkeypatch.setattr(tool, "contract", without)
    assert carried_out(reserved).state == State.COMMITTED


# The decision record that an agent may fetch had the notes of people in it.
def test_the_record_that_an_agent_gets_has_no_notes_and_verifies(refund, alice, as_helpdesk):
    coordinator.note(refund.pk, by=alice, via="web", text="Called the customer.")
    fetched = as_helpdesk.get(f"/transactions/{refund.pk}/record")
    assert "Called" not in fetched.content.decode()
    assert "Called" in decision_records.as_file(decision_records.of_transaction(refund))
    checkpoints.make()
    record = as_helpdesk.get(f"/transactions/{refund.pk}/record").json()
    assert [*verify.record_faults(record, [verify.Key(str(LOG))], [])] == []
    record["events"][0]["reason"] = "Something else."
    assert [*verify.record_faults(record, [verify.Key(str(LOG))], [])]


# A history without end takes ever longer to prove before each claim.
def test_there_is_a_most_of_extensions(refund, alice, monkeypatch):
    monkeypatch.setattr(talk, "MOST_EXTENSIONS", 2)
    for _ in range(2):
        coordinator.extend(refund.pk, timedelta(microseconds=1), by=alice, via="web")
    with pytest.raises(NotPossible, match="that is all"):
        coordinator.extend(refund.pk, timedelta(microseconds=1), by=alice, via="web")


def test_there_is_a_most_of_revisions_by_people(refund, edited, monkeypatch):
    monkeypatch.setattr(revising, "MOST_REVISIONS", 2)
    row = edited(refund, amount="48.20")
    with pytest.raises(NotEditable, match="that is all"):
        edited(row, amount="48.30")


def test_what_comes_out_otherwise_each_time_ends_and_holds_nothing(
    reserved, alice, the_world, monkeypatch
):
    monkeypatch.setattr(revising, "MOST_REVISIONS", 1)
    approve(reserved, alice)
    aged(reserved)
    the_world.price = 120
    row = carried_out(reserved)
    assert (row.state, row.ending) == (State.ROLLING_BACK, Ending.OUTDATED)
    for each in Transaction.objects.filter(state=State.ROLLING_BACK):
        execution.roll_back(each.pk)
    assert the_world.reserved == {}
    verification.verify()


# What a tool says when it fails was told to the agent, and a NUL in it stopped the worker.
def test_the_words_of_a_tool_that_fails_are_for_operators(helpdesk, alice, the_world):
    row = propose("greet", guest="Ada")
    approve(row, alice)

    def fails() -> bool:
        raise RuntimeError("token=4711\0")

    the_world.is_valid = fails
    waits = carried_out(row)
    assert (waits.state, waits.lease_expires_at) == (State.APPROVED, None)
    assert "4711" not in waits.error
    assert "4711" in waits.error_detail
    assert waits.next_attempt_at is not None


# The database refused it after the plan, with an error of ours, and so did it a whole batch.
def test_what_it_touches_is_as_long_as_a_row_can_have(helpdesk, as_helpdesk, the_world):
    answer = as_helpdesk.propose("reserve", arguments={"guest": "Ada", "room": "7" * 600})
    assert answer.status_code == 422
    assert "touches" in answer.json()["detail"]
    assert (the_world.plans, the_world.reserved) == (0, {})
