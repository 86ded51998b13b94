"""An approval can be undone for some seconds, and nobody begins before: the database decides."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import django_rq
import pytest
from django.db import DatabaseError, IntegrityError, connections
from django.db.transaction import atomic
from django.utils import timezone

from examples import verify as second
from ledger import execution
from ledger.contracts import Context, tools, transactional
from ledger.errors import AlreadyDecided, NotAllowed, NotFound, NotPossible
from ledger.execution.claims import claim_all
from ledger.foundation import doorbell
from ledger.models import Decision, Event, Transaction
from ledger.principals import Principal
from ledger.proof.audit import exports, verification
from ledger.proof.log import checkpoints
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from ledger.workers.calls import Calls
from tests.forgery import move_deadline
from tests.permits.conftest import register
from tests.processes import until
from tests.toolbox.world import world

SECONDS = 30


def decide(row: Transaction, by: Principal, undo_seconds: int = SECONDS, **said) -> Transaction:
    said = {"digest": row.intent_digest, "by": by, "via": "web", **said}
    return coordinator.approve(row.pk, undo_seconds=undo_seconds, **said)


def undo(row: Transaction, by: Principal) -> Transaction:
    return coordinator.withdraw_approval(row.pk, by=by, via="web")


def now(row: Transaction) -> Transaction:
    return Transaction.objects.get(pk=row.pk)


def details(row: Transaction, kind: str) -> dict:
    return json.loads(Event.objects.filter(subject=row.pk, kind=kind).latest("seq").details)


def kinds(row: Transaction) -> list[str]:
    return list(Event.objects.filter(subject=row.pk).order_by("seq").values_list("kind", flat=True))


# --- the window -----------------------------------------------------------------------------------


def test_nobody_begins_while_an_approval_can_be_undone(a_payment, alice, the_world):
    row = decide(a_payment(), alice)

    execution.commit(row.pk)
    assert claim_all([row.pk]) == []
    assert not Transaction.objects.begun_by_nobody().exists()

    assert now(row).state == State.APPROVED
    assert the_world.effects == {}
    assert details(row, "approved")["undo_seconds"] == SECONDS


def test_it_begins_once_the_time_is_over(a_payment, alice, the_world):
    row = decide(a_payment(), alice, undo_seconds=1)

    until(lambda: Transaction.objects.begun_by_nobody().exists(), 5, "it is due")
    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED
    assert sum(the_world.effects.values()) == 1
    assert now(row).next_attempt_at is None
    verified()


def test_what_was_undone_waits_as_before_and_can_be_decided_anew(a_payment, alice, the_world):
    before = a_payment()
    row = undo(decide(before, alice), alice)

    same = ("state", "expires_at", "operation_key", "held", "decided_at", "next_attempt_at")
    assert [getattr(row, name) for name in same] == [getattr(before, name) for name in same]
    assert len(the_world.holds) == 1
    assert not row.decisions.exists()
    assert Decision.with_withdrawn.get().is_withdrawn
    execution.commit(row.pk)
    assert the_world.effects == {}

    row = decide(row, alice, undo_seconds=0)
    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED
    assert kinds(row)[:4] == ["prepared", "approved", "approval_withdrawn", "approved"]
    assert [vote.is_withdrawn for vote in Decision.with_withdrawn.order_by("pk")] == [True, False]
    verified()


def test_who_undid_it_can_reject_it(a_payment, alice):
    row = undo(decide(a_payment(), alice), alice)

    said = {"digest": row.intent_digest, "by": alice, "via": "web", "reason": "Too much."}
    assert coordinator.reject(row.pk, **said).ending == "rejected"
    verified()


def test_the_event_names_the_decision_that_it_withdraws(a_payment, alice):
    row = undo(decide(a_payment(), alice), alice)

    withdrawal = details(row, "approval_withdrawn")
    assert withdrawal["decision_at"] == details(row, "approved")["decision_at"]
    assert withdrawal["sets"]["decided_at"] == ""


def test_undone_twice_is_undone_once(a_payment, alice):
    row = decide(a_payment(), alice)

    assert undo(row, alice).state == undo(row, alice).state == State.PREPARED
    assert kinds(row).count("approval_withdrawn") == 1


def test_time_that_is_up_meanwhile_expires_it(a_payment, alice):
    row = decide(a_payment(), alice)
    move_deadline(row.pk)

    undo(row, alice)
    sweeper.expire_what_is_due()

    assert now(row).ending == "expired"


# --- who may, and when ----------------------------------------------------------------------------


def test_nobody_undoes_the_approval_of_somebody_else(a_payment, alice, bob):
    row = decide(a_payment(), alice)

    with pytest.raises(NotAllowed, match="Only who has approved it"):
        undo(row, bob)
    assert now(row).state == State.APPROVED


def test_without_seconds_there_is_nothing_to_undo(a_payment, alice):
    row = decide(a_payment(), alice, undo_seconds=0)

    with pytest.raises(NotPossible, match="The time to undo it is over"):
        undo(row, alice)


def test_what_has_begun_is_not_undone(a_payment, alice):
    row = decide(a_payment(), alice, undo_seconds=1)
    until(lambda: execution.claim(row.pk) is not None, 5, "it is claimed")

    with pytest.raises(NotPossible, match="had begun already"):
        undo(row, alice)
    assert now(row).state == State.COMMITTING


def test_an_approval_after_its_time_is_not_undone_even_if_nobody_has_begun(a_payment, alice):
    row = decide(a_payment(), alice, undo_seconds=1)
    until(lambda: Transaction.objects.begun_by_nobody().exists(), 5, "it is due")

    with pytest.raises(NotPossible, match="The time to undo it is over"):
        undo(row, alice)
    assert now(row).state == State.APPROVED


@pytest.fixture
def of_two() -> Iterator[str]:
    """The name of a tool that takes two approvers, and what it does can be made good."""

    @transactional(
        owner_service="desk",
        operation_key="furnish:{tenant}:{room}",
        receipt="receipt_id",
        risk_level="LOW",
        quorum=2,
        consequence_level="COMPENSABLE",
    )
    def refurnish(room: str, context: Context) -> Any:
        """Takes two approvers."""
        return world.perform(context.operation_key)

    refurnish.compensate(lambda context: world.undo(context.operation_key))
    yield refurnish.name
    del tools[refurnish.name]


def test_the_first_of_two_approvals_can_be_undone(of_two, a_transaction, alice, bob):
    row = decide(a_transaction(of_two, room="lobby"), alice)

    assert undo(row, alice).state == State.PREPARED
    assert decide(row, bob).state == State.PREPARED
    assert decide(row, alice).state == State.APPROVED
    verified()


def test_either_of_two_can_undo_and_the_other_vote_stays(of_two, a_transaction, alice, bob):
    row = a_transaction(of_two, room="attic")
    decide(row, alice)
    decide(row, bob)

    row = undo(row, alice)

    assert [vote.principal for vote in row.decisions.all()] == [str(bob)]
    assert execution.claim(row.pk) is None
    assert decide(row, alice).state == State.APPROVED
    verified()


def test_the_approval_that_signs_it_off_says_when_it_begins(of_two, a_transaction, alice, bob):
    row = a_transaction(of_two, room="shed")
    decide(row, alice)
    decide(row, bob)
    undo(row, alice)
    decide(row, alice, undo_seconds=0)

    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED
    with pytest.raises(NotPossible, match="begun already"):
        undo(row, bob)
    verified()


def test_who_undoes_after_a_rejection_is_told_of_that(of_two, a_transaction, alice, bob):
    row = a_transaction(of_two, room="cellar")
    decide(row, alice)
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="No.")

    with pytest.raises(AlreadyDecided, match="Rejected by Bob Tanaka"):
        undo(row, alice)


def test_what_cannot_be_undone_outside_begins_at_once(a_transaction, alice, the_world):
    row = decide(a_transaction("launch", rocket="Vega"), alice)

    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED
    with pytest.raises(NotPossible, match="begun already"):
        undo(row, alice)


def test_what_its_agent_carries_out_is_told_at_once(acme, a_transaction, alice):
    register(acme)
    row = decide(a_transaction("delete_account", account="a-1"), alice)

    assert "undo_seconds" not in details(row, "approved")
    assert row.next_attempt_at is None


def test_an_unknown_transaction_is_not_found(alice):
    with pytest.raises(NotFound):
        coordinator.withdraw_approval(Transaction().pk, by=alice, via="web")


def test_no_more_than_a_minute(a_payment, alice):
    row = decide(a_payment(), alice, undo_seconds=3600)

    assert details(row, "approved")["undo_seconds"] == 60


def verified() -> None:
    """To both verifiers."""
    checkpoints.make()
    verification.verify()
    key = bytes.fromhex(*checkpoints.own_public_keys())
    assert list(second.verify(exports.export_lines(), [key])) == []


# --- the database keeps it ------------------------------------------------------------------------


def test_nobody_marks_a_decision_that_no_event_withdrew(a_payment, alice):
    decide(a_payment(), alice)

    with pytest.raises(DatabaseError, match="only ever appended"), atomic():
        Decision.objects.update(is_withdrawn=True)


def test_a_withdrawn_decision_stays_so_and_one_vote_counts(a_payment, alice):
    row = decide(undo(decide(a_payment(), alice), alice), alice)

    with pytest.raises(DatabaseError, match="only ever appended"), atomic():
        Decision.with_withdrawn.filter(is_withdrawn=True).update(is_withdrawn=False)
    vote = row.decisions.get()
    vote.pk = None
    with pytest.raises(IntegrityError, match="one_counting_vote_each"), atomic():
        vote.save(force_insert=True)


# --- workers --------------------------------------------------------------------------------------


def work(*rows: Transaction) -> Calls:
    """A worker that was told of these, as by the doorbell."""
    calls = Calls(len(rows) * 4)
    calls.begin_each("commit", {str(row.pk): partial(execution.commit, row.pk) for row in rows})
    return calls


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_was_told_begins_when_the_time_is_over(a_payment, alice, the_world):
    row = decide(a_payment(), alice, undo_seconds=1)

    work(row)
    until(lambda: now(row).state == State.COMMITTED, 10)

    began = Event.objects.get(subject=row.pk, kind="claimed").at
    assert 1 <= (began - now(row).decided_at).total_seconds() < 2
    assert sum(the_world.effects.values()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_was_told_leaves_alone_what_was_undone(a_payment, alice, the_world):
    row = decide(a_payment(), alice, undo_seconds=1)

    calls = work(row)
    undo(row, alice)
    until(lambda: not any(timer.is_alive() for timer in calls._timers), 10)

    assert now(row).state == State.PREPARED
    assert the_world.effects == {}


@pytest.mark.django_db(transaction=True)
def test_the_sweeper_finds_it_where_every_signal_was_lost(a_payment, alice):
    row = decide(a_payment(), alice, undo_seconds=2)
    doorbell.redis().flushdb()
    sweeping = sweeper.Sweeper()

    sweeping.enqueue_due()
    assert django_rq.get_queue("commit").get_job_ids() == []
    until(lambda: Transaction.objects.begun_by_nobody().exists(), 5, "it is due")
    sweeping.enqueue_due()

    assert django_rq.get_queue("commit").get_job_ids() == [str(row.pk)]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_of_undo_and_claim_exactly_one_wins(a_payment, alice, the_world):
    """Some are undone shortly before their time is over, some at that instant, some after it."""
    rows = [decide(a_payment(), alice, undo_seconds=2) for _ in range(24)]
    undone: dict[UUID, bool] = {}

    def undo_at(row: Transaction, milliseconds: int) -> None:
        at = row.next_attempt_at + timedelta(milliseconds=milliseconds)
        time.sleep(max(0.0, (at - timezone.now()).total_seconds()))
        try:
            undo(row, alice)
            undone[row.pk] = True
        except NotPossible:
            undone[row.pk] = False
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=undo_at, args=[row, (number - 16) * 12])
        for number, row in enumerate(rows)
    ]
    for thread in threads:
        thread.start()
    work(*rows)
    for thread in threads:
        thread.join()
    until(lambda: not Transaction.objects.filter(state__in=["approved", "committing"]).exists())

    for row in rows:
        effects = the_world.effects[row.operation_key]
        kept = (now(row).state, effects)
        assert kept == ((State.PREPARED, 0) if undone[row.pk] else (State.COMMITTED, 1))
    assert set(undone.values()) == {True, False}
    verified()
