"""What is stopped begins nothing: the statement that claims asks, so no worker slips through."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, connections
from django.db.transaction import atomic

from ledger import execution
from ledger.errors import InvalidRequest, NotAllowed, NotPossible, Paused
from ledger.events import brakes
from ledger.events.brakes import Scope
from ledger.events.brakes.verbs import LOCK
from ledger.execution import redemption
from ledger.execution.claims import claim_all
from ledger.models import Brake, Event, Transaction
from ledger.principals import Principal, Surface
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.brakes.conftest import SERVER, WHY
from tests.permits.conftest import register
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)
HELPDESK = "agent:acme/helpdesk"
OVER_IT = [
    {},
    {"tool": "pay"},
    {"tenant": "acme"},
    {"tenant": "acme", "tool": "pay"},
    {"tenant": "acme", "agent": HELPDESK},
    {"tenant": "acme", "agent": HELPDESK, "tool": "pay"},
]
BESIDE_IT = [
    {"tenant": "globex"},
    {"tenant": "globex", "tool": "pay"},
    {"tenant": "acme", "tool": "launch"},
    {"tenant": "acme", "agent": "agent:acme/other"},
]


def now(row: Transaction) -> Transaction:
    return Transaction.objects.get(pk=row.pk)


@pytest.mark.parametrize("scope", OVER_IT)
def test_what_is_stopped_begins_only_once_it_is_let_go_on(
    approved, stop, let_go_on, the_world, scope
):
    row = approved()
    brake = stop(**scope)

    execution.commit(row.pk)
    assert claim_all([row.pk]) == []
    assert not Transaction.objects.begun_by_nobody().exists()
    assert (now(row).state, the_world.effects) == (State.APPROVED, {})

    let_go_on(brake)
    assert Transaction.objects.begun_by_nobody().exists()
    execution.commit(row.pk)
    assert now(row).state == State.COMMITTED


@pytest.mark.parametrize("scope", BESIDE_IT)
def test_a_brake_stops_nothing_beside_its_scope(approved, stop, scope):
    row = approved()
    stop(**scope)

    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED


def test_a_brake_lapses_by_the_clock_of_the_database(approved, stop):
    row = approved()
    stop("acme", lasts=timedelta(milliseconds=300))
    execution.commit(row.pk)
    assert now(row).state == State.APPROVED

    until(lambda: Transaction.objects.begun_by_nobody().exists())
    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED


def test_the_sweeper_finds_what_was_let_go_on(approved, stop, let_go_on):
    row = approved()
    brake = stop("acme")
    Transaction.objects.filter(pk=row.pk).update(decided_at="2026-01-01T00:00Z")
    assert not sweeper._approved_and_unclaimed().exists()

    let_go_on(brake)

    assert sweeper._approved_and_unclaimed().get() == row


def test_nothing_begins_after_put_has_returned_with_eight_that_claim(approved, stop, the_world):
    rows = [approved() for _ in range(40)]
    ids = [row.pk for row in rows]
    is_over, has_begun = threading.Event(), threading.Event()

    def claim_them() -> None:
        try:
            while not is_over.is_set():
                for pk in ids:
                    if claim_all([pk], skip_locked=False):
                        has_begun.set()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=claim_them) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert has_begun.wait(20)

    began = time.monotonic()
    done = brakes.put(Scope("acme"), WHY, by=SERVER, via=Surface.COMMAND)
    took = time.monotonic() - began
    begun = Transaction.objects.filter(state=State.COMMITTING).count()
    assert claim_all(ids, skip_locked=False) == []
    is_over.set()
    for thread in threads:
        thread.join(20)

    assert done.is_waited_for
    assert took < 1
    assert Transaction.objects.filter(state=State.COMMITTING).count() == begun
    last_claim = Event.objects.filter(kind="claimed").latest("pk").at
    assert last_claim <= Event.objects.filter(kind="brake_put").get().at + timedelta(seconds=took)


def test_who_is_claiming_is_waited_for_and_sees_the_brake_or_is_done(approved, stop):
    """A claim that asked before the brake is committed first; one that asks later sees it."""
    row = approved()
    asked, commits = threading.Event(), threading.Event()
    answers: list[brakes.Put] = []

    def claim_slowly() -> None:
        with atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT ledger_is_stopped('acme', %s, 'pay')", [HELPDESK])
            assert cursor.fetchone() == (False,)
            asked.set()
            commits.wait(20)
        connections.close_all()

    def put() -> None:
        answers.append(brakes.put(Scope("acme"), WHY, by=SERVER, via=Surface.COMMAND))
        connections.close_all()

    claiming = threading.Thread(target=claim_slowly)
    claiming.start()
    assert asked.wait(20)
    putting = threading.Thread(target=put)
    putting.start()
    until(_waits_for_the_lock)
    assert not answers
    commits.set()
    putting.join(20)
    claiming.join(20)

    assert answers[0].is_waited_for
    assert claim_all([row.pk]) == []


def test_it_says_so_when_somebody_who_claims_does_not_answer(approved):
    with _holding_the_lock():
        done = brakes.put(Scope("acme"), WHY, by=SERVER, via=Surface.COMMAND)

    assert not done.is_waited_for
    assert Brake.objects.standing().get() == done.brake


@contextmanager
def _holding_the_lock() -> Iterator[None]:
    session = connection.copy()
    with session.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock_shared(%s)", [LOCK])
        yield
    session.close()


def _waits_for_the_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return cursor.fetchone() == (1,)


def test_what_runs_may_finish(approved, stop):
    [lease] = claim_all([approved().pk])
    stop()

    execution.run(lease)

    assert now(lease.row).state == State.COMMITTED


def test_what_is_held_is_released_while_it_is_stopped(a_payment, alice, stop, the_world):
    row = a_payment()
    stop()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")

    execution.roll_back(row.pk)

    assert (now(row).state, the_world.holds) == (State.ABORTED, set())


def test_what_is_in_doubt_does_not_run_again(approved, stop, let_go_on, the_world):
    def silence() -> None:
        raise TimeoutError

    the_world.before = [silence]
    row = approved()
    execution.commit(row.pk)
    assert now(row).state == State.IN_DOUBT
    brake = stop("acme")
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at="2026-01-01T00:00Z")

    execution.commit(row.pk)
    assert (now(row).state, the_world.effects) == (State.IN_DOUBT, {})

    let_go_on(brake)
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at="2026-01-01T00:00Z")
    execution.commit(row.pk)
    assert now(row).state == State.COMMITTED


def test_nothing_is_compensated(approved, olga_user, stop, let_go_on, the_world):
    row = approved()
    execution.commit(row.pk)
    olga = Principal("user", str(olga_user.pk), "Olga")
    order = {"by": olga, "via": "web", "reason": "Paid twice."}
    brake = stop("acme")
    with pytest.raises(Paused):
        coordinator.compensate(row.pk, **order)
    let_go_on(brake)
    coordinator.compensate(row.pk, **order)
    brake = stop("acme")

    execution.compensate(row.pk)
    assert now(row).state == State.COMPENSATING

    let_go_on(brake)
    execution.compensate(row.pk)
    assert now(row).state == State.COMPENSATED


def test_no_permit_is_issued_or_redeemed(acme, helpdesk, a_transaction, alice, stop, let_go_on):
    register(acme)
    acme.refresh_from_db()
    row = a_transaction("delete_account", account="a-1")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    asked = {"by": helpdesk.principal, "via": Surface.REST}
    permit = redemption.issue(row.pk, **asked).permit
    brake = stop(tool="delete_account")

    with pytest.raises(Paused):
        redemption.issue(row.pk, **asked)
    with pytest.raises(Paused):
        redemption.redeem(permit.jti, by=str(helpdesk.principal), via=Surface.REST)
    assert not redemption.is_redeemable(redemption.find(permit.jti))

    let_go_on(brake)
    assert redemption.is_redeemable(redemption.find(permit.jti))
    redemption.redeem(permit.jti, by=str(helpdesk.principal), via=Surface.REST)
    assert now(row).state == State.COMMITTING


# --- putting and lifting ----------------------------------------------------------------------


def test_putting_and_lifting_are_sealed(stop, let_go_on):
    brake = let_go_on(stop("acme", tool="pay", lasts=timedelta(hours=1)))

    put, lifted = Event.objects.filter(kind__startswith="brake_").order_by("pk")

    assert (put.kind, put.tenant, put.reason, put.principal) == (
        "brake_put", "acme", WHY, "system:command",
    )  # fmt: skip
    assert lifted.kind == "brake_lifted"
    assert put.subject == lifted.subject
    assert brake.lifted_by == "system:command"
    assert let_go_on(brake) == brake
    assert Event.objects.filter(kind="brake_lifted").count() == 1


def test_a_brake_that_has_lapsed_is_not_lifted(stop, let_go_on):
    brake = stop("acme", lasts=timedelta(milliseconds=1))
    until(lambda: not Brake.objects.standing().exists())

    with pytest.raises(NotPossible):
        let_go_on(brake)


@pytest.mark.parametrize("by", [Principal("agent", "acme/helpdesk"), Principal("system", "worker")])
def test_only_people_put_and_lift(stop, by):
    brake = stop("acme")
    with pytest.raises(NotAllowed):
        stop("acme", by=by, via=Surface.REST)
    with pytest.raises(NotAllowed):
        brakes.lift(brake.pk, by=by, via=Surface.REST)


@pytest.mark.parametrize(
    "said",
    [
        {"why": " "},
        {"why": "x" * 501},
        {"why": "a\u202eb"},
        {"lasts": timedelta(0)},
        {"lasts": timedelta(days=367)},
        {"tenant": "acme", "agent": "agent:globex/helpdesk"},
        {"agent": HELPDESK},
    ],
)
def test_what_makes_no_sense_is_refused(stop, said):
    with pytest.raises(InvalidRequest):
        stop(**said)
    assert not Brake.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_brake SET tenant = 'globex'",
        "UPDATE ledger_brake SET until = now()",
        "UPDATE ledger_brake SET keeps = true",
        "UPDATE ledger_brake SET is_hold = true",
        "UPDATE ledger_brake SET counted_at = now()",
        "DELETE FROM ledger_brake",
        "TRUNCATE ledger_brake",
    ],
)
def test_the_database_lets_a_brake_be_lifted_and_nothing_else(stop, change):
    stop("acme")

    with pytest.raises(IntegrityError), connection.cursor() as cursor:
        cursor.execute(change)
