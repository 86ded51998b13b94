"""While a brake stands the clocks under it stand still, and what was left is left afterwards."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from examples import verify as second
from ledger import execution
from ledger.errors import Expired, Paused
from ledger.models import Brake, Event, Transaction
from ledger.proof.audit import decision_records, exports, verification
from ledger.proof.log import checkpoints
from ledger.states import State
from ledger.transactions import coordinator, why_not_to_act
from ledger.workers import sweeper
from tests.forgery import forge, reseal, reseal_row
from tests.processes import until
from tests.rules.conftest import LARGE_TAKE_TWO

pytestmark = pytest.mark.django_db(transaction=True)
MOVED = "deadline_moved"


def now(row: Transaction) -> Transaction:
    return Transaction.objects.get(pk=row.pk)


def moves(row: Transaction) -> list[Event]:
    return list(Event.objects.filter(subject=row.pk, kind=MOVED).order_by("seq"))


def long_ago(row: Transaction, seconds: int, left: int) -> Transaction:
    """As if it had been prepared so long ago, with so much time left from now on."""
    forge(
        "UPDATE ledger_transaction SET created_at = clock_timestamp() - %s * interval '1 s',"
        " expires_at = clock_timestamp() + %s * interval '1 s' WHERE id = %s",
        seconds,
        left,
        row.pk,
    )
    reseal_row(row.pk)
    return now(row)


def stood(brake: Brake, begun: int, ended: int | None = None) -> None:
    """As if it had been put and lifted so many seconds ago, with its events."""
    forge(
        "UPDATE ledger_brake SET at = clock_timestamp() - %s * interval '1 s' WHERE id = %s",
        begun,
        brake.pk,
    )
    forge(
        "UPDATE ledger_event SET at = (SELECT at FROM ledger_brake WHERE id = %s) "
        "WHERE kind = 'brake_put' AND details LIKE %s",
        brake.pk,
        f'%"brake:{brake.pk}"%',
    )
    if ended is not None:
        forge(
            "UPDATE ledger_brake SET lifted_by = 'system:command',"
            " lifted_at = clock_timestamp() - %s * interval '1 s' WHERE id = %s",
            ended,
            brake.pk,
        )
        forge(
            "UPDATE ledger_event SET at = (SELECT lifted_at FROM ledger_brake WHERE id = %s) "
            "WHERE kind = 'brake_lifted' AND details LIKE %s",
            brake.pk,
            f'%"brake:{brake.pk}"%',
        )
    for subject in Event.objects.filter(details__contains=f'"brake:{brake.pk}"').values_list(
        "subject", flat=True
    ):
        reseal(subject)


def about(moved: timedelta, seconds: float) -> bool:
    return abs(moved.total_seconds() - seconds) < 5


def faults_of_both() -> tuple[list[str], list[str]]:
    """Those that the first verifier finds, and those that the second does in the export."""
    checkpoints.make()
    keys = checkpoints.own_public_keys()
    lines = [*exports.export_lines()]
    try:
        verification.verify(keys)
        own: list[str] = []
    except verification.Broken as broken:
        own = broken.faults
    return own, [*second.verify(lines, [bytes.fromhex(key) for key in keys])]


def test_nothing_expires_under_a_brake_and_what_was_left_is_left(a_payment, stop, let_go_on):
    row = long_ago(a_payment(), 100, -10)
    other = long_ago(a_payment(), 100, 50)
    brake = stop("acme")
    stood(brake, 60)

    sweeper.set_clocks_going()
    sweeper.expire_what_is_due()
    assert (now(row).state, moves(row)) == (State.PREPARED, [])

    let_go_on(brake)
    sweeper.set_clocks_going()
    sweeper.expire_what_is_due()

    for each in (row, other):
        assert about(now(each).expires_at - each.expires_at, 60)
        assert now(each).state == State.PREPARED
    [event] = moves(row)
    assert json.loads(event.details)["sets"].keys() == {"expires_at"}
    assert Brake.objects.get().counted_at is not None
    sweeper.set_clocks_going()
    assert len(moves(row)) == 1
    assert faults_of_both() == ([], [])


def test_what_was_over_before_the_brake_expires_after_it(a_payment, stop, let_go_on):
    row = long_ago(a_payment(), 100, -80)
    brake = stop()
    stood(brake, 60)
    let_go_on(brake)

    sweeper.set_clocks_going()
    sweeper.expire_what_is_due()

    assert now(row).state == State.ROLLING_BACK
    assert faults_of_both() == ([], [])


def test_brakes_that_overlap_count_once(a_payment, stop, let_go_on):
    row = long_ago(a_payment(), 100, 30)
    first, last, beside = stop("acme"), stop(tool="pay"), stop("globex")
    stood(beside, 90)
    let_go_on(first)
    stood(first, 80, 40)
    stood(last, 60)

    sweeper.set_clocks_going()
    assert moves(row) == []
    assert Brake.objects.get(pk=first.pk).counted_at is not None

    let_go_on(last)
    sweeper.set_clocks_going()

    assert about(now(row).expires_at - row.expires_at, 80)
    assert faults_of_both() == ([], [])


def test_a_second_brake_counts_from_where_the_first_left_off(a_payment, stop, let_go_on):
    row = long_ago(a_payment(), 100, 30)
    for begun, ended in ((90, 70), (40, 20)):
        brake = stop("acme")
        let_go_on(brake)
        stood(brake, begun, ended)
        sweeper.set_clocks_going()

    assert about(now(row).expires_at - row.expires_at, 40)
    assert len(moves(row)) == 2
    assert faults_of_both() == ([], [])


def test_the_part_before_it_was_proposed_does_not_count(a_payment, stop, let_go_on):
    row = long_ago(a_payment(), 10, 30)
    brake = stop("acme")
    stood(brake, 90)
    let_go_on(brake)

    sweeper.set_clocks_going()

    assert about(now(row).expires_at - row.expires_at, 10)


def test_a_brake_that_lapses_by_itself_is_counted_to_its_end(a_payment, stop):
    row = long_ago(a_payment(), 100, 30)
    stop("acme", lasts=timedelta(milliseconds=200))
    until(lambda: not Brake.objects.standing().exists())

    sweeper.set_clocks_going()

    assert now(row).expires_at - row.expires_at == timedelta(milliseconds=200)
    assert faults_of_both() == ([], [])


def test_it_is_rejected_under_a_brake_though_its_time_would_be_up(a_payment, alice, stop):
    row = long_ago(a_payment(), 100, -10)
    stood(stop("acme"), 60)
    vote: dict[str, Any] = {"digest": row.intent_digest, "by": alice, "via": "web"}

    with pytest.raises(Paused):
        coordinator.approve(row.pk, **vote)
    coordinator.reject(row.pk, reason="No.", **vote)
    execution.roll_back(row.pk)

    assert now(row).state == State.ABORTED
    assert len(moves(row)) == 1
    assert faults_of_both() == ([], [])


def test_it_is_approved_and_carried_out_after_the_brake(
    a_payment, alice, stop, let_go_on, the_world
):
    row = long_ago(a_payment(), 100, -10)
    brake = stop("acme")
    stood(brake, 60)
    let_go_on(brake)
    sweeper.set_clocks_going()

    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED
    assert faults_of_both() == ([], [])
    record = json.loads(decision_records.as_file(decision_records.of_transaction(now(row))))
    assert not [
        fault
        for fault in second.record_faults(record, *_keys_of(record))
        if "checkpoint" not in fault
    ]


def _keys_of(record: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    return [second.Key(record["keys"]["log"])], []


def test_without_a_brake_it_is_too_late(a_payment, alice):
    row = long_ago(a_payment(), 100, -10)
    with pytest.raises(Expired):
        coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")


# --- tampering --------------------------------------------------------------------------------


def test_a_deadline_that_was_moved_without_an_event_is_found(a_payment):
    row = a_payment()
    forge("UPDATE ledger_transaction SET expires_at = expires_at + interval '1 h'")

    assert why_not_to_act(now(row))
    assert all(faults_of_both())


def test_a_deadline_that_was_moved_again_without_an_event_is_found(a_payment, stop, let_go_on):
    row = long_ago(a_payment(), 100, 30)
    brake = stop("acme")
    stood(brake, 60)
    let_go_on(brake)
    sweeper.set_clocks_going()
    forge("UPDATE ledger_transaction SET expires_at = expires_at + interval '1 h'")

    assert "expires_at" in why_not_to_act(now(row))
    assert all(faults_of_both())


@pytest.mark.parametrize("seconds", [60, 6000])
def test_a_move_that_no_brake_explains_is_found(a_payment, seconds):
    """As somebody with the application's own password could append it: the seal is right."""
    row = long_ago(a_payment(), 100, 30)
    moved = row.expires_at + timedelta(seconds=seconds)
    _append_move(row, moved)

    assert bool(why_not_to_act(now(row))) == (seconds > 100)
    assert all(faults_of_both())


def _append_move(row: Transaction, moved: datetime) -> None:
    details = {
        "from": str(_us(row.expires_at)),
        "sets": {"expires_at": str(_us(moved))},
    }
    Event.objects.create(
        subject=row.pk,
        transaction_id=row.pk,
        tenant=row.tenant,
        kind=MOVED,
        to_state="prepared",
        principal="system:sweeper",
        principal_name="Time-to-live",
        via="system",
        details=json.dumps(details, separators=(",", ":"), sort_keys=True),
    )
    Transaction.objects.filter(pk=row.pk).update(expires_at=moved)


def _us(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


def test_a_brake_that_was_lifted_without_an_event_is_found(stop):
    stop("acme")
    Brake.objects.update(lifted_at="2026-01-01T00:00Z", lifted_by="user:1")

    own, _ = faults_of_both()

    assert "brake" in own[0]


def test_a_brake_that_nobody_put_is_found(acme):
    Brake.objects.create(tenant="acme", why="x", by="user:1", by_name="x")

    own, _ = faults_of_both()

    assert "brake" in own[0]


def test_rules_and_brakes_on_one_transaction(
    a_transaction, activated, alice, bob, stop, let_go_on, the_world
):
    """Its terms were made after it was proposed, and its deadline was moved: both verify."""
    row = long_ago(a_transaction("refund", order="o-1", amount="2000"), 100, -10)
    activated(LARGE_TAKE_TWO)
    brake = stop("acme", tool="refund")
    stood(brake, 60)
    let_go_on(brake)
    sweeper.set_clocks_going()

    for approver in (alice, bob):
        coordinator.approve(row.pk, digest=row.intent_digest, by=approver, via="web")
    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED
    assert faults_of_both() == ([], [])


def test_what_began_under_a_brake_that_a_writer_lifted_is_noticed_by_both(approved, stop):
    row, brake = approved(), stop("acme")
    stood(brake, 600)
    forge(
        "UPDATE ledger_brake SET lifted_at = clock_timestamp(), lifted_by = 'user:1' WHERE id = %s",
        brake.pk,
    )
    execution.commit(row.pk)
    assert now(row).state == State.COMMITTED

    ours, theirs = faults_of_both()
    assert any(str(row.pk) in fault and "under a brake" in fault for fault in ours), ours
    assert any(str(row.pk) in fault and "under a brake" in fault for fault in theirs), theirs
