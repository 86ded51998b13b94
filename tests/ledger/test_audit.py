"""History is whole, or the first broken row is named."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.transaction import atomic

from ledger.models import Event, Transaction
from ledger.proof.audit import verification
from ledger.proof.audit.verification import Broken
from ledger.proof.log import checkpoints
from ledger.transactions import coordinator


@pytest.fixture
def forge():
    """What somebody with the database's own password could do: past the triggers."""

    def run(sql: str, *values: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            cursor.execute(sql, values)
            cursor.execute("SET session_replication_role = DEFAULT")

    return run


@pytest.fixture
def history(a_payment, alice):
    rows = [a_payment() for _ in range(3)]
    for row in rows:
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    checkpoints.make()
    return rows


def test_an_untouched_ledger_verifies(history, capsys):
    call_command("verify_ledger")

    assert (
        "8 events of 3 transactions and 1 tasks and accounts under 1 signed checkpoints"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    "change", ["UPDATE ledger_event SET reason = 'x'", "DELETE FROM ledger_event"]
)
def test_the_database_refuses_to_change_history(history, change):
    with (
        pytest.raises(DatabaseError, match="only ever appended"),
        atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(change)


@pytest.mark.parametrize(
    "column", ["principal", "reason", "kind", "via", "to_state", "details", "tenant", "hash"]
)
def test_any_changed_column_is_found_and_its_row_named(history, forge, column):
    event = Event.objects.filter(transaction=history[1]).order_by("seq").first()
    forge(f"UPDATE ledger_event SET {column} = %s WHERE id = %s", "0" * 64, event.pk) if (
        column == "hash"
    ) else forge(f"UPDATE ledger_event SET {column} = %s WHERE id = %s", "forged", event.pk)

    with pytest.raises(Broken, match=f"event {event.pk}"):
        verification.verify()


def test_a_missing_event_is_found(history, forge):
    event = Event.objects.filter(transaction=history[1]).order_by("seq").first()
    forge("DELETE FROM ledger_event WHERE id = %s", event.pk)

    with pytest.raises(Broken, match=f"event 1 of transaction {history[1].pk} is missing"):
        verification.verify()


def test_a_forged_state_is_found(history):
    Transaction.objects.filter(pk=history[0].pk).update(state="failed")

    with pytest.raises(Broken, match=f"transaction {history[0].pk} is failed"):
        verification.verify()


def test_a_whole_transaction_that_vanished_is_found_by_its_checkpoint(history, forge):
    forge("DELETE FROM ledger_delivery")
    for table in ("event", "decision", "idempotencykey"):
        forge(f"DELETE FROM ledger_{table} WHERE transaction_id = %s", history[0].pk)
    forge("DELETE FROM ledger_transaction WHERE id = %s", history[0].pk)

    with pytest.raises(Broken, match=r"are not those that it signed|saw 8 events"):
        verification.verify()


def test_a_history_that_was_rewritten_with_right_hashes_is_found_by_its_checkpoint(history, forge):
    event = Event.objects.filter(transaction=history[0]).order_by("-seq").first()
    event.principal_name = "Mallory"
    event.hash = verification.hash_of(event)
    forge(
        "UPDATE ledger_event SET principal_name = 'Mallory', hash = %s WHERE id = %s",
        event.hash,
        event.pk,
    )

    with pytest.raises(Broken, match="not those that it signed"):
        verification.verify()
