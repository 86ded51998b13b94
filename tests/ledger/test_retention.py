"""Retention: content is erased in time, the rest still proves itself, and a hold keeps it all."""

from __future__ import annotations

import json
import threading
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import IntegrityError, connection, transaction

from approvals import metrics
from examples import verify as second
from ledger import execution
from ledger.api.rendering import render_token
from ledger.errors import InvalidRequest, NotPossible, PlanRefused
from ledger.models import Checkpoint, Decision, Delivery, Event, IdempotencyKey, Transaction
from ledger.principals import Principal
from ledger.proof import retention
from ledger.proof.audit import decision_records, exports, verification
from ledger.proof.log import checkpoints
from ledger.seals import seals
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal
from ledger.workers import sweeper
from tests.forgery import end_retention, forge
from tests.processes import until
from tests.toolbox.world import world

pytestmark = pytest.mark.django_db(transaction=True)
OLGA = Principal("user", "olga", "Olga Novak")
SECRET = "Ada Lovelace was charged twice"
PUBLIC_KEY = (
    Ed25519PrivateKey.from_private_bytes(bytes.fromhex(settings.AUDIT_KEY))
    .public_key()
    .public_bytes_raw()
)


@pytest.fixture
def expired(approved):
    """A payment with texts of people in every place, whose retention is over."""

    def make(**arguments):
        row = approved(**arguments)
        execution.commit(row.pk)
        end_retention(row.pk)
        return Transaction.objects.get(pk=row.pk)

    return make


def propose_again(row, key):
    return coordinator.prepare(
        Proposal("pay", row.payload),
        by=Principal("agent", "acme/helpdesk", "Helpdesk agent"),
        tenant="acme",
        key=key,
        via="api",
        render=render_token,
    )


def assert_whole():
    checkpoints.make()
    verification.verify(frozenset({PUBLIC_KEY.hex()}))
    assert list(second.verify(exports.export_lines(), [PUBLIC_KEY])) == []


def dump() -> str:
    """Every row of every table of the ledger, as text."""
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        texts = []
        for table in tables:
            if table.startswith(("ledger_", "a2a_")):
                cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM \"{table}\" t")
                texts.append(cursor.fetchone()[0])
    return "\n".join(texts)


def test_both_verifiers_find_the_ledger_whole_before_and_after(expired, alice, a_transaction):
    row = expired()
    rejected = a_transaction()
    coordinator.reject(rejected.pk, digest=rejected.intent_digest, by=alice, via="web", reason="no")
    execution.roll_back(rejected.pk)
    end_retention(rejected.pk)
    assert_whole()

    assert retention.erase_batch() == 2

    assert_whole()
    kept = Transaction.objects.get(pk=row.pk)
    assert kept.content_erased_at is not None
    assert (kept.receipt, kept.operation_key, kept.amount) == (
        row.receipt,
        row.operation_key,
        row.amount,
    )
    for name in seals.EMPTY:
        assert seals.is_empty(name, getattr(kept, name)), name


def test_no_text_of_anybody_is_left_anywhere(acme, alice):
    by = Principal("agent", "acme/helpdesk", "Helpdesk agent")
    answer = coordinator.prepare(
        Proposal("pay", {"reference": f"order-{uuid4().hex}", "amount": "5.00"}, reason=SECRET),
        by=by,
        tenant="acme",
        key=uuid4().hex,
        via="api",
        render=render_token,
    )
    row = Transaction.objects.get(pk=answer.transaction_id)
    coordinator.reject(
        row.pk, digest=row.intent_digest, by=alice, via="web", reason=f"No: {SECRET}"
    )
    execution.roll_back(row.pk)
    end_retention(row.pk)
    assert SECRET in dump()
    assert row.payload["reference"] in dump()

    retention.erase_due()

    left = dump()
    assert SECRET not in left
    assert left.count(row.payload["reference"]) == left.count(row.operation_key)
    assert_whole()


def test_the_erasure_is_sealed_with_the_digest_of_what_each_column_had(expired):
    row = expired()
    before = seals.digests_of(row)

    retention.erase_due()

    event = Event.objects.get(subject=row.pk, kind="content_erased")
    assert json.loads(event.details)["erased"] == before
    assert event.principal == "system:sweeper"
    # Whoever has a copy can prove that it is one.
    digest = seals.digest_of_text(seals.column_text("arguments", row.arguments))
    assert before["arguments"] == digest


def test_what_is_not_over_or_not_ended_or_still_owed_is_kept(approved, expired, a_payment):
    fresh, waiting, owed = approved(), a_payment(), expired()
    execution.commit(fresh.pk)
    forge(
        "UPDATE ledger_transaction SET retain_until = now() - interval '1 day' WHERE id = %s",
        waiting.pk,
    )
    last = Event.objects.filter(subject=owed.pk).latest("pk")
    Delivery.objects.create(event=last, channel="webhook")

    assert retention.erase_batch() == 0


def test_a_late_receipt_or_a_proposed_settlement_keeps_the_content(expired):
    late, proposed = expired(), expired()
    forge("UPDATE ledger_transaction SET late_receipt = 're_9' WHERE id = %s", late.pk)
    forge("UPDATE ledger_transaction SET settlement = '{}' WHERE id = %s", proposed.pk)

    assert retention.erase_batch() == 0


def erase_and_die() -> None:
    """The process is gone before the batch is committed."""
    with transaction.atomic():
        retention.erase_batch(most=1)
        raise KeyboardInterrupt


def test_a_sweep_erases_batch_by_batch_and_a_crash_loses_one_batch_only(expired, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 1)
    rows = [expired() for _ in range(3)]
    retention.erase_batch(most=1)

    with pytest.raises(KeyboardInterrupt):
        erase_and_die()

    assert Transaction.objects.filter(content_erased_at=None).count() == 2
    assert Event.objects.filter(kind="content_erased").count() == 1
    assert_whole()
    retention.erase_due()
    assert Event.objects.filter(kind="content_erased").count() == len(rows)
    assert_whole()


def test_one_sweep_is_bounded(expired, monkeypatch):
    monkeypatch.setattr(retention, "BATCHES", 2)
    monkeypatch.setattr(retention, "BATCH", 1)
    monkeypatch.setattr(retention.erase_batch, "__defaults__", (1,))
    for _ in range(3):
        expired()

    retention.erase_due()

    assert Event.objects.filter(kind="content_erased").count() == 2


def test_a_held_row_is_kept_until_the_hold_is_released(expired):
    row = expired()
    retention.hold(row.pk, by=OLGA, via="admin", reason="A claim of 2026.")
    retention.erase_due()
    assert Transaction.objects.get(pk=row.pk).payload == row.payload
    assert_whole()

    retention.release(row.pk, by=OLGA, via="admin", reason="Settled.")
    retention.erase_due()

    assert Transaction.objects.get(pk=row.pk).payload == {}
    assert_whole()


def test_a_hold_needs_a_reason_and_comes_once_and_not_too_late(expired):
    row = expired()
    with pytest.raises(InvalidRequest, match="Say why"):
        retention.hold(row.pk, by=OLGA, via="admin", reason=" ")
    with pytest.raises(NotPossible, match="under no legal hold"):
        retention.release(row.pk, by=OLGA, via="admin", reason="x")
    retention.hold(row.pk, by=OLGA, via="admin", reason="x")
    with pytest.raises(NotPossible, match="is under a legal hold"):
        retention.hold(row.pk, by=OLGA, via="admin", reason="x")
    retention.release(row.pk, by=OLGA, via="admin", reason="x")
    retention.erase_due()

    with pytest.raises(NotPossible, match="was erased on"):
        retention.hold(row.pk, by=OLGA, via="admin", reason="x")
    assert Event.objects.filter(kind="legal_hold_placed").count() == 1


def test_a_hold_that_is_just_being_placed_wins_over_the_sweeper(expired):
    """The sweeper passes over the locked row; a moment later it finds it held."""
    row = expired()
    placed, erased = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            retention.hold(row.pk, by=OLGA, via="admin", reason="x")
            placed.set()
            assert erased.wait(20)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert placed.wait(20)
    assert retention.erase_batch() == 0
    erased.set()
    thread.join(20)

    assert retention.erase_batch() == 0
    assert Transaction.objects.get(pk=row.pk).payload == row.payload
    assert_whole()


def test_a_hold_during_an_erasure_comes_too_late_and_says_so(expired):
    row = expired()
    inside, refused = threading.Event(), []

    def hold():
        inside.set()
        try:
            retention.hold(row.pk, by=OLGA, via="admin", reason="x")
        except NotPossible as refusal:
            refused.append(refusal.detail)
        connection.close()

    with transaction.atomic():
        retention.erase_batch()
        thread = threading.Thread(target=hold)
        thread.start()
        assert inside.wait(20)
    thread.join(20)

    assert refused
    assert "was erased on" in refused[0]
    assert_whole()


def test_a_row_that_does_not_verify_is_held_and_not_erased(expired):
    row, other = expired(), expired()
    forge("UPDATE ledger_transaction SET amount = 1 WHERE id = %s", row.pk)

    retention.erase_due()

    kept = Transaction.objects.get(pk=row.pk)
    assert (kept.payload, kept.content_erased_at) == (row.payload, None)
    assert kept.legal_hold_at is not None
    assert "does not verify" in kept.events.get(kind="legal_hold_placed").reason
    assert Transaction.objects.get(pk=other.pk).content_erased_at is not None


def make_unreadable(table: str, pk) -> None:
    """Store a number that PostgreSQL keeps and that Python refuses to read."""
    forge(f"UPDATE {table} SET result = %s::jsonb WHERE id = %s", "9" * 5000, pk)


def test_a_row_that_cannot_be_read_is_logged_and_does_not_block_the_others(
    expired, monkeypatch, caplog
):
    broken, other = expired(), expired()
    make_unreadable("ledger_transaction", broken.pk)
    monkeypatch.setattr(retention, "_failed_at", {})

    assert retention.erase_batch(most=1) == 1
    assert retention.erase_batch(most=1) == 1
    assert retention.erase_batch(most=1) == 0

    erased = Transaction.objects.exclude(content_erased_at=None).values_list("pk", flat=True)
    assert list(erased) == [other.pk]
    assert str(broken.pk) in caplog.text
    monkeypatch.setattr(retention, "RETRY_S", 0.0)
    forge(
        "UPDATE ledger_transaction SET result = %s WHERE id = %s",
        json.dumps(broken.result),
        broken.pk,
    )
    assert retention.erase_batch(most=1) == 1
    assert Transaction.objects.filter(content_erased_at=None).count() == 0
    assert_whole()


def test_a_step_of_the_sweeper_that_fails_stops_neither_erasure_nor_checkpoints(
    expired, monkeypatch, settings, caplog
):
    def fails() -> None:
        raise ValueError("Exceeds the limit for integer string conversion")

    settings.CHECKPOINT_EVERY_S = 0
    monkeypatch.setattr(sweeper, "_further_steps", [fails])
    row = expired()
    round_of_sweeping = sweeper.Sweeper()

    round_of_sweeping.sweep()

    until(Checkpoint.objects.exists)
    round_of_sweeping._log.finish()
    assert Transaction.objects.get(pk=row.pk).content_erased_at is not None
    assert "Exceeds the limit" in caplog.text


def test_the_same_operation_is_still_refused_after_the_erasure(expired):
    row = expired()
    effects = dict(world.effects)
    retention.erase_due()

    answer = propose_again(row, uuid4().hex)

    token = json.loads(answer.text)
    assert token["duplicate_of"] == str(row.pk)
    assert token["content_erased_at"]
    assert Transaction.objects.filter(operation_key=row.operation_key).count() == 1
    assert dict(world.effects) == effects


def test_a_duplicate_during_the_erasure_keeps_none_of_the_content(expired):
    row = expired()
    answers = []

    def propose() -> None:
        answers.append(propose_again(row, "during"))
        connection.close()

    thread = threading.Thread(target=propose)
    with transaction.atomic():
        retention.erase_batch()
        thread.start()
        until(somebody_waits_for_a_lock)
    thread.join(20)

    assert json.loads(answers[0].text)["content_erased_at"]
    assert IdempotencyKey.objects.get(key="during").answer == answers[0].text
    assert row.action_summary not in answers[0].text


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database()) "
            "OR NOT granted AND locktype = 'transactionid'"
        )
        return bool(cursor.fetchone()[0])


def test_the_same_request_again_gets_what_is_left_of_its_answer(acme, alice):
    by = Principal("agent", "acme/helpdesk", "Helpdesk agent")
    said = Proposal("pay", {"reference": f"order-{uuid4().hex}", "amount": "5.00"})
    how = {"by": by, "tenant": "acme", "key": "k-1", "via": "api", "render": render_token}
    first = coordinator.prepare(said, **how)
    row = Transaction.objects.get(pk=first.transaction_id)
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="no")
    execution.roll_back(row.pk)
    end_retention(row.pk)
    retention.erase_due()
    assert IdempotencyKey.objects.get(key="k-1").answer == ""

    again = coordinator.prepare(said, **how)

    assert (again.is_replay, again.transaction_id) == (True, row.pk)
    assert json.loads(again.text)["content_erased_at"]


def test_a_refusal_asked_for_again_says_that_its_reason_was_erased(acme):
    by = Principal("agent", "acme/helpdesk", "Helpdesk agent")
    said = Proposal("pay", {"reference": "unknown", "amount": "5.00"})
    how = {"by": by, "tenant": "acme", "key": "k-1", "via": "api", "render": render_token}
    with pytest.raises(PlanRefused):
        coordinator.prepare(said, **how)
    end_retention(Transaction.objects.get().pk)
    retention.erase_due()

    with pytest.raises(PlanRefused, match="erased under retention"):
        coordinator.prepare(said, **how)
    assert_whole()


def test_what_is_due_and_what_is_held_is_counted(expired):
    _, held = expired(), expired()
    retention.hold(held.pk, by=OLGA, via="admin", reason="x")

    counted = {metric.name: metric for metric in metrics.retention(None)}["assent_retention"]

    assert (counted.of(state="due"), counted.of(state="held")) == (1, 1)


def test_nothing_is_compensated_after_the_erasure(expired):
    row = expired()
    retention.erase_due()

    with pytest.raises(NotPossible, match="was erased on"):
        coordinator.compensate(row.pk, by=OLGA, via="web", reason="wrong")


class TestTheDatabaseItself:
    def test_empties_no_reason_without_the_sealed_erasure(self, approved):
        row = approved()
        for rows in (Event.objects.filter(subject=row.pk), Decision.objects.all()):
            with pytest.raises(IntegrityError, match="only ever appended to"), transaction.atomic():
                rows.update(reason="")

    def test_changes_nothing_else_after_it(self, expired):
        row = expired()
        retention.erase_due()
        for rows, change in (
            (Event.objects.filter(subject=row.pk), {"reason": "another"}),
            (Event.objects.filter(subject=row.pk), {"reason": "", "details": "{}"}),
            (Event.objects.filter(kind="content_erased"), {"reason": ""}),
            (Decision.objects.all(), {"reason": "another"}),
            (Decision.objects.all(), {"reason": "", "verdict": "reject"}),
        ):
            with pytest.raises(IntegrityError, match="only ever appended to"), transaction.atomic():
                rows.update(**change)


def test_the_decision_record_still_proves_itself(expired):
    row = expired()
    retention.erase_due()
    checkpoints.make()

    record = json.loads(decision_records.as_file(decision_records.of_transaction(row)))

    key = second.Key(record["keys"]["log"])
    assert list(second.record_faults(record, [key], [])) == []
    assert record["shown"] is None
    record["prepared"]["operation_key"] = "another"
    assert list(second.record_faults(record, [key], []))


class TestWhatPeopleAndAgentsSee:
    def test_rest_says_when_the_content_was_erased(self, expired, as_helpdesk):
        row = expired()
        assert as_helpdesk.get(f"/transactions/{row.pk}").json()["content_erased_at"] is None
        retention.erase_due()

        body = as_helpdesk.get(f"/transactions/{row.pk}").json()

        assert body["content_erased_at"]
        assert (body["payload"], body["result"], body["action_summary"]) == ({}, None, "")
        assert body["receipt"] == row.receipt

    @pytest.mark.parametrize("page", ["", "record/"])
    def test_the_desk_says_it_in_a_sentence(self, expired, as_alice, page):
        row = expired()
        retention.erase_due()

        answer = as_alice.get(f"/transactions/{row.pk}/{page}")

        assert answer.status_code == 200
        assert "content was erased on" in answer.content.decode()

    def test_the_lists_of_the_desk_have_a_title_for_it(self, expired, as_alice):
        expired()
        retention.erase_due()

        assert "pay: content erased on" in as_alice.get("/history/").content.decode()
