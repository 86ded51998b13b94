"""What was signed off in a restored database may have been carried out since the backup."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.db.models.functions import Now

from ledger import execution
from ledger.models import Transaction
from ledger.proof.audit.verification import verify
from ledger.proof.log import checkpoints, publishing
from ledger.states import State
from ledger.transactions import coordinator
from ledger.transactions.prepare import prepare
from tests.conftest import propose

pytestmark = pytest.mark.django_db(transaction=True)


def signed_off(alice, tool="pay", **arguments) -> Transaction:
    row = propose(tool, **arguments)
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    return row


def carried_out_after_the_backup(row, world) -> str:
    """The effect of a commit that the restored database knows nothing about."""
    honours_key = row.tool == "pay"
    return world.perform(row.operation_key, honours_key=honours_key)["receipt_id"]


def carry_out(row) -> Transaction:
    """What workers do when they are started again."""
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


def test_what_was_carried_out_since_keeps_its_receipt(acme, alice, the_world):
    row = signed_off(alice)
    receipt = carried_out_after_the_backup(row, the_world)

    call_command("after_restore")
    carry_out(row)

    assert (row.state, row.receipt) == (State.COMMITTED, receipt)
    assert the_world.effects[row.operation_key] == 1
    verify()


def test_what_nobody_can_ask_about_waits_for_operators(acme, alice, the_world):
    row = signed_off(alice, "launch", rocket="r1")
    carried_out_after_the_backup(row, the_world)

    call_command("after_restore")
    carry_out(row)

    assert row.state == State.IN_DOUBT
    assert the_world.effects[row.operation_key] == 1
    verify()


def test_a_retry_safe_tool_carries_out_what_was_not_carried_out(acme, alice, the_world):
    row = signed_off(alice)

    call_command("after_restore")
    carry_out(row)

    assert row.state == State.COMMITTED
    assert the_world.effects[row.operation_key] == 1
    verify()


def test_what_needs_no_approver_and_was_not_signed_off_yet_is_in_doubt_too(
    acme, the_world, monkeypatch
):
    def die(*args: object) -> None:
        raise OperationalError("the process died after prepare")

    monkeypatch.setattr(prepare, "approve_by_policy", die)
    row = propose("write_note", text="n1")
    assert row.state == State.PREPARED

    call_command("after_restore")

    row.refresh_from_db()
    assert row.state == State.IN_DOUBT
    verify()


def test_it_says_how_many_operation_keys_become_free(acme, capsys):
    row = propose()
    Transaction.objects.filter(pk=row.pk).update(expires_at=Now())

    call_command("after_restore")

    assert "1 of them are past their expiry" in capsys.readouterr().out


def test_a_hold_that_lapsed_meanwhile_is_in_doubt_and_not_released(acme, alice, the_world):
    row = signed_off(alice)
    Transaction.objects.filter(pk=row.pk).update(hold_expires_at=Now())

    call_command("after_restore")

    row.refresh_from_db()
    assert row.state == State.IN_DOUBT


def test_it_may_run_twice_and_says_what_waits(acme, alice, capsys):
    signed_off(alice)
    propose()

    call_command("after_restore")
    assert "1 signed-off transactions are in doubt now" in capsys.readouterr().out
    call_command("after_restore")

    assert "0 signed-off transactions are in doubt now" in (out := capsys.readouterr().out)
    assert "1 transactions wait for a decision" in out


def test_it_says_how_much_is_missing_from_the_published_log(
    acme, alice, settings, tmp_path, capsys
):
    settings.LOG_FILE = str(tmp_path / "checkpoints")
    propose()
    checkpoints.make()
    publishing.catch_up()

    call_command("after_restore")
    assert "no published checkpoint has more" in capsys.readouterr().out
    publishing.append(_signed_elsewhere(size=41))
    call_command("after_restore")

    assert "A checkpoint of 41 events was published, and 3 are here" in (capsys.readouterr().out)


def _signed_elsewhere(size: int):
    """A later checkpoint of the same log, which the backup does not contain."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from django.conf import settings

    from ledger.foundation.crypto import signed_notes
    from ledger.foundation.crypto.signed_notes import TreeHead

    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(settings.AUDIT_KEY))
    head = TreeHead(settings.LOG_ORIGIN, size, bytes(32))
    return signed_notes.signed(str(head), head.origin, key)
