"""Approve, reject, expire, cancel: who wins, and what the others are told."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from ledger.errors import (
    AlreadyDecided,
    DigestMismatch,
    Expired,
    InvalidRequest,
    LedgerError,
    NotAllowed,
    NotFound,
    NotPossible,
    OwnTransaction,
)
from ledger.models import Transaction
from ledger.principals import Principal, user
from ledger.states import State
from ledger.transactions import coordinator
from tests.forgery import move_deadline

HELPDESK = Principal("agent", "acme/helpdesk", "Helpdesk agent")
SUPERVISOR = Principal("agent", "acme/supervisor", "Supervisor")


def let_time_pass(row: Transaction) -> None:
    move_deadline(row.pk)


@pytest.mark.django_db(transaction=True)
def test_of_fifty_who_decide_at_once_exactly_one_wins_and_the_others_hear_of_it(a_payment):
    row = a_payment()
    move_deadline(row.pk, milliseconds=400)
    start = threading.Barrier(50)
    won, lost, crashed = [], [], []

    def decide(number: int) -> None:
        person = user(number, f"Person {number}")
        said = {"digest": row.intent_digest, "by": person, "via": "web"}
        verbs = {
            0: lambda: coordinator.approve(row.pk, **said),
            1: lambda: coordinator.reject(row.pk, reason="no", **said),
            2: lambda: coordinator.expire(row.pk),
        }
        try:
            start.wait()
            verbs[number % 3 if number % 10 else 2]()
            won.append(number)
        except NotPossible as refusal:
            lost.append(refusal)
        except BaseException as bug:
            crashed.append(bug)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert crashed == []
    assert len(lost) == 50 - len(won)
    if not won:  # sweepers came before the deadline and people after it: a sweeper comes again
        won.append(coordinator.expire(row.pk))

    row.refresh_from_db()
    assert len(won) == 1
    assert {refusal.status for refusal in lost} == {409}
    assert row.events.exclude(kind="prepared").count() == 1
    assert row.decisions.count() == (0 if row.ending == "expired" else 1)


@pytest.mark.django_db(transaction=True)
def test_approval_and_expiry_at_the_same_instant_have_one_winner(a_payment, alice):
    for _ in range(10):
        row = a_payment()
        move_deadline(row.pk, milliseconds=30)
        outcomes = []

        def run(verb, outcomes=outcomes):
            try:
                outcomes.append(verb().state)
            except NotPossible as refusal:
                outcomes.append(refusal)
            finally:
                connections.close_all()

        def expire(row=row):
            while True:  # as the sweeper does: until its time has come
                try:
                    return coordinator.expire(row.pk)
                except NotPossible as refusal:
                    if refusal.snapshot.state != State.PREPARED:
                        raise

        def approve(row=row):
            return coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

        threads = [threading.Thread(target=run, args=(verb,)) for verb in (expire, approve)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        row.refresh_from_db()
        assert len([outcome for outcome in outcomes if isinstance(outcome, str)]) == 1
        assert row.events.count() == 2


def test_saying_the_same_again_is_no_error(a_payment, alice):
    row = a_payment()
    first = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    second = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="slack")

    assert first.state == second.state == State.APPROVED
    assert row.events.count() == 2


def test_a_late_decision_is_told_who_was_faster_when_and_how(a_payment, alice, bob):
    row = a_payment()
    coordinator.reject(
        row.pk, digest=row.intent_digest, by=bob, via="slack", reason="Duplicate of yesterday."
    )

    with pytest.raises(AlreadyDecided) as refusal:
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    assert refusal.value.detail.startswith("Rejected by Bob Tanaka via slack at 20")
    assert refusal.value.extra["decided_by"] == str(bob)


def test_changing_ones_mind_is_a_conflict(a_payment, alice):
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    with pytest.raises(AlreadyDecided):
        coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="no")


def test_an_approval_counts_only_for_what_was_on_the_screen(a_payment, alice):
    row = a_payment()

    with pytest.raises(DigestMismatch) as refusal:
        coordinator.approve(row.pk, digest="0" * 64, by=alice, via="web")

    assert refusal.value.extra["intent_digest"] == row.intent_digest
    assert Transaction.objects.get(pk=row.pk).state == State.PREPARED


def test_an_approval_after_the_time_to_live_is_refused_although_no_sweeper_came(a_payment, alice):
    row = a_payment()
    let_time_pass(row)

    with pytest.raises(Expired):
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    assert Transaction.objects.get(pk=row.pk).state == State.PREPARED


def test_what_expired_cannot_be_approved_any_more(a_payment, alice):
    row = a_payment()
    let_time_pass(row)
    coordinator.expire(row.pk)

    with pytest.raises(Expired, match="Expired by Time-to-live"):
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")


def test_nothing_expires_before_its_time(a_payment):
    row = a_payment()

    with pytest.raises(NotPossible):
        coordinator.expire(row.pk)


def test_nobody_decides_on_their_own_transaction(a_transaction):
    row = a_transaction("order", agent="supervisor", item="desk")

    with pytest.raises(OwnTransaction):
        coordinator.approve(row.pk, digest=row.intent_digest, by=SUPERVISOR, via="api")


def test_an_agent_decides_only_where_the_contract_asks_for_a_supervisor(a_transaction):
    for_person, for_supervisor = a_transaction("pay"), a_transaction("order", item="desk")

    with pytest.raises(NotAllowed, match="asks for a person"):
        coordinator.approve(
            for_person.pk, digest=for_person.intent_digest, by=SUPERVISOR, via="api"
        )
    approved = coordinator.approve(
        for_supervisor.pk, digest=for_supervisor.intent_digest, by=SUPERVISOR, via="api"
    )

    assert approved.state == State.APPROVED


def test_a_quorum_of_two_takes_two_different_people(a_transaction, alice, bob):
    row = a_transaction("scuttle", rocket="old")
    said = {"digest": row.intent_digest, "via": "web"}

    assert coordinator.approve(row.pk, by=alice, **said).state == State.PREPARED
    assert coordinator.approve(row.pk, by=alice, **said).state == State.PREPARED
    assert coordinator.approve(row.pk, by=bob, **said).state == State.APPROVED
    assert [event.kind for event in row.events.order_by("seq")] == [
        "prepared",
        "approval_recorded",
        "approved",
    ]


def test_a_rejection_needs_a_reason_that_is_fit_to_be_read(a_payment, alice):
    row = a_payment()

    for reason in ("", "   ", "x" * 2001, "hidden\u202etext", "nul\x00"):
        with pytest.raises(InvalidRequest):
            coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason=reason)

    assert Transaction.objects.get(pk=row.pk).state == State.PREPARED


def test_only_the_proposer_cancels_and_twice_is_once(a_payment):
    row = a_payment()

    with pytest.raises(NotAllowed):
        coordinator.cancel(row.pk, by=SUPERVISOR, via="api")
    first = coordinator.cancel(row.pk, by=HELPDESK, via="api", reason="not needed")
    second = coordinator.cancel(row.pk, by=HELPDESK, via="api")

    assert first.state == second.state == State.ROLLING_BACK
    assert row.events.count() == 2


def test_a_decision_on_what_does_not_exist_is_not_found(a_payment, alice):
    row = a_payment()
    missing = row.pk.int ^ 1

    with pytest.raises(NotFound):
        coordinator.approve(type(row.pk)(int=missing), digest="0" * 64, by=alice, via="web")


def test_a_harmless_tool_passes_by_policy_and_the_record_says_why(a_transaction):
    row = a_transaction("write_note", text="hello")

    vote = row.decisions.get()
    assert row.state == State.APPROVED
    assert (vote.principal, vote.reason) == (
        "system:policy",
        "The contract asks for no approver.",
    )


def test_every_refusal_is_a_ledger_error_with_a_code_and_a_hint():
    def tree(error):
        yield error
        for child in error.__subclasses__():
            yield from tree(child)

    errors = list(tree(LedgerError))
    codes = [error.code for error in errors]
    assert len(codes) == len(set(codes))
    assert all(error.hint for error in errors if error is not LedgerError and error.status != 409)
