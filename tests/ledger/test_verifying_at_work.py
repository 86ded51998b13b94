"""Verification beside a ledger at work, and from where an earlier one ended."""

from __future__ import annotations

import json
import re
import threading
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from ledger import execution
from ledger.models import Event
from ledger.principals import Principal
from ledger.proof.audit import histories, verification
from ledger.proof.audit.verification import Broken
from ledger.proof.log import checkpoints
from ledger.proof.log.checkpoint_proof import NOTHING
from ledger.transactions import coordinator
from tests.conftest import propose, seal_approver
from tests.forgery import forge, reseal_row

ALICE = Principal("user", "1", "Alice Moreau")


@pytest.fixture(autouse=True)
def role_of_alice(acme):
    seal_approver(ALICE)


def _carried_out():
    row = propose()
    coordinator.approve(row.pk, digest=row.intent_digest, by=ALICE, via="web")
    execution.commit(row.pk)
    return row


@pytest.mark.parametrize("proofs", [5, pytest.param(25, marks=pytest.mark.slow)])
@pytest.mark.django_db(transaction=True)
def test_a_ledger_at_work_is_never_called_broken(acme, proofs):
    """Two people and a sweeper write all the while; each proof is of one instant."""
    is_over, failures = threading.Event(), []

    def work():
        try:
            while not is_over.is_set():
                _carried_out()
        except Exception as failure:
            failures.append(failure)
        finally:
            connections.close_all()

    def make_checkpoints():
        try:
            while not is_over.is_set():
                checkpoints.make()
                is_over.wait(0.01)
        except Exception as failure:
            failures.append(failure)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=each) for each in (work, work, make_checkpoints)]
    for thread in threads:
        thread.start()
    try:
        seen = [verification.verify().events for _ in range(proofs)]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()

    assert failures == []
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_a_proof_goes_on_where_the_one_before_it_ended(acme, tmp_path, capsys):
    file = tmp_path / "verified.json"
    _carried_out()
    checkpoints.make()
    call_command("verify_ledger", since=file)
    first = capsys.readouterr().out
    _carried_out()
    checkpoints.make()

    # The old history is read again as well, as long as it is no more than one slice.
    call_command("verify_ledger", since=file)

    assert "The ledger is whole: 6 events" in first
    assert re.search(r"What is new is whole: \d+ events", capsys.readouterr().out)
    assert json.loads(file.read_text())["upto_event"] == Event.objects.latest("pk").pk


def test_what_is_new_is_proved_although_the_slice_is_elsewhere(acme, monkeypatch):
    monkeypatch.setattr(verification, "SLICE", 1)
    for _ in range(3):
        _carried_out()
    checkpoints.make()
    proof = verification.verify(since=verification.Since(NOTHING))
    row = _carried_out()
    forge("UPDATE ledger_transaction SET receipt = 'forged' WHERE id = %s", row.pk)

    with pytest.raises(Broken, match=f"transaction {row.pk}: receipt is not"):
        verification.verify(since=proof.reached)


def test_every_old_history_is_read_again_in_its_turn(acme, monkeypatch):
    """A change of an old row without a new event: found by the slice that has it."""
    monkeypatch.setattr(verification, "SLICE", 2)
    rows = [_carried_out() for _ in range(6)]
    checkpoints.make()
    reached = verification.verify().reached
    forge("UPDATE ledger_transaction SET receipt = 'forged' WHERE id = %s", rows[4].pk)

    def whole_round() -> None:
        at = reached
        for _ in range(4):
            at = verification.verify(since=at).reached

    verification.verify(since=reached)  # its turn has not come
    with pytest.raises(Broken, match=str(rows[4].pk)):
        whole_round()


def test_a_row_without_events_is_found_wherever_it_is(acme, monkeypatch):
    monkeypatch.setattr(verification, "SLICE", 1)
    rows = [_carried_out() for _ in range(4)]
    checkpoints.make()
    reached = verification.verify().reached
    forge("DELETE FROM ledger_delivery")
    forge("DELETE FROM ledger_event WHERE subject = %s", rows[3].pk)

    with pytest.raises(Broken, match=f"transaction {rows[3].pk} has no events"):
        verification.verify(since=reached)


def test_an_old_history_rewritten_with_its_seals_is_found_by_the_checkpoint(acme, monkeypatch):
    monkeypatch.setattr(verification, "SLICE", 1)
    rows = [_carried_out() for _ in range(4)]
    checkpoints.make()
    forge("UPDATE ledger_transaction SET stated_reason = 'x' WHERE id = %s", rows[3].pk)
    reseal_row(rows[3].pk)

    with pytest.raises(Broken, match="not those that it signed"):
        verification.verify()


def test_a_file_that_says_nothing_sensible_is_not_gone_on_from(acme, tmp_path):
    file = tmp_path / "verified.json"
    file.write_text("{}")

    with pytest.raises(CommandError, match="Start anew with --full"):
        call_command("verify_ledger", since=file)
    checkpoints.make()
    call_command("verify_ledger", since=file, full=True)


def test_without_any_known_key_nothing_is_called_whole(acme, settings, capsys):
    _carried_out()
    checkpoints.make()
    settings.AUDIT_KEY, settings.AUDIT_PUBLIC_KEYS = "", []

    with pytest.raises(CommandError, match="No public key is known"):
        call_command("verify_ledger")
    call_command("verify_ledger", any_key=True)

    assert "This key was not compared with a known one" in capsys.readouterr().out


def test_another_key_than_the_named_one_is_not_trusted(acme):
    _carried_out()
    checkpoints.make()

    with pytest.raises(CommandError, match="is signed by no key that is trusted"):
        call_command("verify_ledger", public_key=["0" * 64])


def test_no_checkpoint_at_all_is_a_fault_and_newer_events_are_one_once_they_are_old(acme):
    _carried_out()
    verification.verify(patience=timedelta(minutes=5))  # the first may still come
    with pytest.raises(Broken, match="no checkpoint is there"):
        verification.verify(patience=timedelta(0))
    checkpoints.make()
    _carried_out()

    verification.verify(patience=timedelta(minutes=5))
    with pytest.raises(Broken, match="are under no checkpoint"):
        verification.verify(patience=timedelta(0))


def test_a_copy_outside_that_cannot_be_read_ends_in_one_sentence_before_anything_is_verified(
    acme, tmp_path, capsys
):
    with pytest.raises(CommandError, match=r"missing cannot be read: .*Nothing was verified\.$"):
        call_command("verify_ledger", against=[tmp_path / "missing"])

    assert capsys.readouterr().err == ""


def test_progress_ends_at_all_of_it(acme, capsys):
    for _ in range(2):
        _carried_out()
    checkpoints.make()

    call_command("verify_ledger")

    last = {line.split(":")[0]: line for line in capsys.readouterr().err.splitlines()}
    assert {line.split(":")[1].split()[0] for line in last.values()} == {"100%"}


def test_what_is_new_is_proved_however_much_of_it_there_is(acme, monkeypatch):
    monkeypatch.setattr(histories, "AT_ONCE", 2)
    monkeypatch.setattr(verification, "SLICE", 1)
    _carried_out()
    checkpoints.make()
    reached = verification.verify().reached
    rows = [_carried_out() for _ in range(5)]
    checkpoints.make()

    assert verification.verify(since=reached).transactions == 5 + 2  # those of the slice
    forge("UPDATE ledger_transaction SET receipt = 'forged' WHERE id = %s", rows[4].pk)
    with pytest.raises(Broken, match=f"transaction {rows[4].pk}: receipt is not"):
        verification.verify(since=reached)
