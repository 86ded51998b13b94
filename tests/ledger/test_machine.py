"""The coordinator as a state machine: whatever happens in whatever order, the promises hold."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import hypothesis.strategies as st
import pytest
from django.db import connection
from django.db.models.functions import Now
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from ledger import execution
from ledger.errors import LedgerError
from ledger.models import Transaction
from ledger.principals import Principal, user
from ledger.proof.audit import verification
from ledger.states import FINAL, State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.conftest import propose, seal_approver
from tests.forgery import move_deadline
from tests.toolbox.world import world

PEOPLE = [user(pk, name) for pk, name in enumerate(("Alice", "Bob", "Dora"), start=1)]
HELPDESK = Principal("agent", "acme/helpdesk", "Helpdesk agent")
numbers = itertools.count()


def breaks(error: type[Exception]):
    def raise_it() -> None:
        raise error("the wire was cut")

    return raise_it


class Ledger(RuleBasedStateMachine):
    """Random prepare, approve, reject, expire, cancel, claim, crash, record and resolve."""

    transactions = Bundle("transactions")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        world.reset()
        for person in PEOPLE:
            seal_approver(person)
        self.run = uuid4().hex
        self.ids: list = []

    @rule(target=transactions, number=st.integers(0, 3), tool=st.sampled_from(["pay", "launch"]))
    def prepare(self, number, tool):
        name = f"{self.run}-{number}"
        arguments = {"reference": name} if tool == "pay" else {"rocket": name}
        row = propose(tool, **arguments)
        if row.pk not in self.ids:
            self.ids.append(row.pk)
        return row.pk

    @rule(
        pk=transactions,
        person=st.sampled_from(PEOPLE),
        is_stale=st.booleans(),
        undo_seconds=st.sampled_from([0, 60]),
    )
    def approve(self, pk, person, is_stale, undo_seconds):
        digest = "0" * 64 if is_stale else Transaction.objects.get(pk=pk).intent_digest
        said = {"digest": digest, "by": person, "via": "web"}
        self._try(coordinator.approve, pk, undo_seconds=undo_seconds, **said)

    @rule(pk=transactions, person=st.sampled_from(PEOPLE))
    def undo(self, pk, person):
        self._try(coordinator.withdraw_approval, pk, by=person, via="web")

    @rule(pk=transactions, person=st.sampled_from(PEOPLE))
    def approve_and_undo(self, pk, person):
        """In its seconds, with a worker that is told too early."""
        self.approve(pk, person, False, 60)
        execution.commit(pk)
        self.undo(pk, person)

    @rule(pk=transactions, person=st.sampled_from(PEOPLE))
    def reject(self, pk, person):
        digest = Transaction.objects.get(pk=pk).intent_digest
        self._try(coordinator.reject, pk, digest=digest, by=person, via="slack", reason="no")

    @rule(pk=transactions)
    def cancel(self, pk):
        self._try(coordinator.cancel, pk, by=HELPDESK, via="api")

    @rule(pk=transactions, is_due=st.booleans())
    def expire(self, pk, is_due):
        if is_due:
            move_deadline(pk)
        self._try(coordinator.expire, pk)

    @rule(target=leases, pk=transactions)
    def claim_and_fall_silent(self, pk):
        """A worker takes it and is not heard of for a while, or for ever."""
        return execution.claim(pk)

    @rule(lease=consumes(leases))
    def silent_worker_wakes_up(self, lease):
        if lease is not None and self._still_holds(lease):
            execution.run(lease)

    def _still_holds(self, lease):
        """What ``act`` cannot know: a worker that was paused must not begin after its lease."""
        return Transaction.objects.filter(
            lease.holds, pk=lease.row.pk, state=State.COMMITTING
        ).exists()

    @rule(pk=transactions, trouble=st.sampled_from(["", "before", "after", "refused"]))
    def work(self, pk, trouble):
        from ledger.contracts import NothingHappened

        world.before = [breaks(ConnectionError)] if trouble == "before" else []
        world.before = [breaks(NothingHappened)] if trouble == "refused" else world.before
        world.after = [breaks(ConnectionError)] if trouble == "after" else []
        execution.commit(pk)

    @rule(pk=transactions, is_broken=st.booleans())
    def roll_back(self, pk, is_broken):
        world.rollback_trouble = [ConnectionError("down")] if is_broken else []
        execution.roll_back(pk)
        world.rollback_trouble = []
        Transaction.objects.filter(pk=pk, state=State.ROLLING_BACK).update(next_attempt_at=None)

    @rule(pk=transactions)
    def lease_runs_out(self, pk):
        late = Now() - timedelta(seconds=1)
        Transaction.objects.filter(pk=pk, lease_expires_at__isnull=False).update(
            lease_expires_at=late
        )
        sweeper.doubt_lapsed_leases()

    @rule(
        pk=transactions,
        person=st.sampled_from(PEOPLE),
        outcome=st.sampled_from(["committed", "nothing_happened", "retry"]),
    )
    def resolve_truthfully(self, pk, person, outcome):
        """People look before they say: what they say is so."""
        row = Transaction.objects.get(pk=pk)
        happened = world.effects[row.operation_key] > 0
        if (outcome == "committed") != happened and outcome != "retry":
            return
        receipt = world.receipts.get(row.operation_key, "")
        said = {"by": person, "via": "admin", "reason": "I looked."}
        self._try(coordinator.resolve, pk, outcome=outcome, receipt=receipt, **said)

    @rule(pk=transactions, person=st.sampled_from(PEOPLE))
    def compensate(self, pk, person):
        self._try(coordinator.compensate, pk, by=person, via="admin", reason="wrong")
        execution.compensate(pk)

    def _try(self, verb, *subject, **said):
        with suppress(LedgerError):
            verb(*subject, **said)

    @invariant()
    def no_operation_has_two_effects(self):
        assert all(count <= 1 for count in world.effects.values()), world.effects

    @invariant()
    def committed_means_a_receipt_and_an_effect(self):
        for row in Transaction.objects.filter(pk__in=self.ids, state=State.COMMITTED):
            assert row.receipt
            assert world.effects[row.operation_key] == 1

    @invariant()
    def ended_without_effect_means_none(self):
        for row in Transaction.objects.filter(
            pk__in=self.ids, state__in=[State.ABORTED, State.FAILED]
        ):
            live = Transaction.objects.holding(row.tenant, row.operation_key).exists()
            if not live:
                assert world.effects[row.operation_key] == 0
                assert row.operation_key not in world.holds

    @invariant()
    def every_change_has_its_event_and_the_chains_verify(self):
        verification.verify()

    @invariant()
    def at_most_one_transaction_has_an_operation(self):
        keys = Transaction.objects.filter(pk__in=self.ids).exclude(
            state__in=[State.ABORTED, State.FAILED, State.REFUSED]
        )
        found = list(keys.values_list("operation_key", flat=True))
        assert len(found) == len(set(found))

    def teardown(self):
        """In the end everything ends, or waits for a person who can be seen to be waited for."""
        world.before, world.after, world.rollback_trouble = [], [], []
        Transaction.objects.filter(pk__in=self.ids).update(lease_expires_at=None)
        for _ in range(3):
            for pk in self.ids:
                Transaction.objects.filter(pk=pk, next_attempt_at__isnull=False).exclude(
                    state=State.APPROVED
                ).update(next_attempt_at=Now())
                execution.commit(pk)
                execution.roll_back(pk)
                execution.compensate(pk)
        for row in Transaction.objects.filter(pk__in=self.ids):
            waits = {State.PREPARED, State.IN_DOUBT, State.COMMITTING}
            is_undoable = row.state == State.APPROVED and row.next_attempt_at is not None
            assert row.state in FINAL | waits or is_undoable, row.state
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            for table in ("decision", "delivery", "idempotencykey", "event", "transaction"):
                cursor.execute(f"DELETE FROM ledger_{table}")
            cursor.execute("SET session_replication_role = DEFAULT")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.django_db(transaction=True)
def test_whatever_happens_in_whatever_order_the_promises_hold(acme):
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Ledger,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
