"""Evidence under the digest: stored, proved by both verifiers, exported, erased; and forged."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import IntegrityError, connection
from django.db.transaction import atomic

from examples import verify as second
from ledger import execution, seals
from ledger.contracts.evidence import File, Text
from ledger.errors import EvidenceChanged, NotAllowed, PlanFailed, UnsafeText
from ledger.models import Evidence, Transaction, contents_of
from ledger.principals import Principal
from ledger.proof import retention
from ledger.proof.audit import decision_records, exports, verification
from ledger.proof.log import checkpoints
from ledger.transactions import coordinator, links_of
from tests.evidence.conftest import EACH_KIND
from tests.evidence.files import PDF, SVG
from tests.forgery import end_retention, forge, reseal_row

pytestmark = pytest.mark.django_db(transaction=True)
PUBLIC_KEY = (
    Ed25519PrivateKey.from_private_bytes(bytes.fromhex(settings.AUDIT_KEY))
    .public_key()
    .public_bytes_raw()
)


def faults() -> tuple[str, str]:
    """Those that our verifier finds, and those of the second one, in an export."""
    checkpoints.make()
    try:
        verification.verify(frozenset({PUBLIC_KEY.hex()}))
        ours = ""
    except verification.Broken as broken:
        ours = str(broken)
    return ours, " ".join(second.verify(exports.export_lines(), [PUBLIC_KEY]))


def approve(row: Transaction, by: Principal) -> Transaction:
    return coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")


def test_the_digest_covers_name_type_and_content_of_each_piece(file_it):
    row = file_it(*EACH_KIND)

    assert seals.digest_of(seals.intent_of(row)) == row.intent_digest
    for number in range(len(EACH_KIND)):
        for member in ("name", "media_type", "sha256"):
            changed = [dict(piece) for piece in row.evidence]
            changed[number][member] += "0"
            row.evidence = changed
            assert not row.is_untouched
            row.refresh_from_db()
    assert all(content is not None for content in contents_of(row))
    assert links_of(row.pk)[0].says["evidence"] == [piece["sha256"] for piece in row.evidence]


def test_a_transaction_without_evidence_has_the_digest_that_it_always_had(a_payment):
    row = a_payment()

    assert row.evidence is None
    assert "evidence" not in seals.intent_of(row)
    assert "evidence" not in links_of(row.pk)[0].says


def test_both_verifiers_prove_it_and_an_export_holds_the_contents(file_it, alice):
    row = approve(file_it(*EACH_KIND), alice)
    execution.commit(row.pk)

    assert faults() == ("", "")
    lines = [json.loads(line) for line in exports.export_lines()]
    exported = [line for line in lines if line["type"] == "evidence"]
    assert [base64.b64decode(line["content"]) for line in exported] == contents_of(row)


CHANGES: dict[str, str] = {
    "other bytes": "UPDATE ledger_evidence SET content = content || 'x' WHERE number = 2",
    "one is gone": "DELETE FROM ledger_evidence WHERE number = 5",
    "two are exchanged": "UPDATE ledger_evidence this SET content = other.content"
    " FROM ledger_evidence other WHERE other.transaction_id = this.transaction_id"
    " AND this.number IN (4, 5) AND other.number = 9 - this.number",
    "one is added": "INSERT INTO ledger_evidence (transaction_id, number, content)"
    " SELECT transaction_id, 6, 'x' FROM ledger_evidence WHERE number = 1",
    "another name": "UPDATE ledger_transaction SET evidence ="
    " jsonb_set(evidence, '{0,name}', '\"Receipt\"')",
    "another hash": "UPDATE ledger_transaction SET evidence ="
    " jsonb_set(evidence, '{0,sha256}', '\"00\"')",
    "none is named": "UPDATE ledger_transaction SET evidence = NULL",
}


@pytest.mark.parametrize("what", CHANGES)
def test_both_verifiers_find_what_was_changed_in_the_database(what, file_it, alice):
    approve(file_it(*EACH_KIND), alice)
    forge(CHANGES[what])

    ours, theirs = faults()

    assert "evidence" in ours or "intent digest" in ours
    assert "evidence" in theirs or "not what was shown" in theirs


@pytest.mark.parametrize("what", ["other bytes", "one is gone", "two are exchanged"])
def test_nobody_approves_what_has_other_evidence_by_now(what, file_it, alice, bob):
    row = file_it(*EACH_KIND)
    forge(CHANGES[what])

    with pytest.raises(EvidenceChanged, match="was changed"):
        approve(row, alice)
    row.refresh_from_db()
    assert (row.state, row.decisions.count()) == ("prepared", 0)

    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="Changed.")
    row.refresh_from_db()
    assert row.state == "rolling_back"


def test_who_reseals_the_whole_row_is_found_by_the_digest_that_was_approved(file_it, alice):
    row = approve(file_it(Text("Letter", "Pay 5.")), alice)
    content = b"Pay 5000."
    sealed = seals.digest_of_text(content.decode())
    forge("UPDATE ledger_evidence SET content = %s", content)
    forge(
        "UPDATE ledger_transaction SET evidence = jsonb_set(evidence, '{0,sha256}', %s::jsonb)",
        f'"{sealed}"',
    )
    row.refresh_from_db()
    forge("UPDATE ledger_transaction SET intent_digest = %s", seals.digest_of(seals.intent_of(row)))
    reseal_row(row.pk)

    ours, theirs = faults()

    assert "on something else" in ours
    assert "vote on something else" in theirs


def test_the_database_refuses_to_change_or_delete_evidence(file_it):
    row = file_it(Text("Letter", "Pay 5."))

    for statement in (
        "UPDATE ledger_evidence SET content = 'x'",
        "DELETE FROM ledger_evidence",
        "TRUNCATE ledger_evidence",
    ):
        with pytest.raises(IntegrityError, match="only ever appended"), atomic():
            connection.cursor().execute(statement)
    assert contents_of(row) == [b"Pay 5."]


def test_a_supervising_agent_is_shown_no_evidence_and_approves_none(file_it, supervisor):
    row = file_it(Text("Letter", "Pay 5."), required_approver="SUPERVISOR")
    agent = Principal("agent", "acme/supervisor", "Supervisor")

    with pytest.raises(NotAllowed, match="only people are shown"):
        approve(row, agent)
    coordinator.pass_on(
        row.pk, digest=row.intent_digest, by=agent, via="api", reason="It has evidence."
    )
    assert faults() == ("", "")


def test_an_erasure_deletes_the_contents_and_keeps_their_digests(file_it, alice):
    row = approve(file_it(*EACH_KIND), alice)
    execution.commit(row.pk)
    sealed = links_of(row.pk)[0].says["evidence"]
    end_retention(row.pk)

    retention.erase_due()

    row.refresh_from_db()
    assert row.content_erased_at
    assert row.evidence is None
    assert not Evidence.objects.exists()
    assert links_of(row.pk)[0].says["evidence"] == sealed
    assert faults() == ("", "")


def test_evidence_that_outlives_its_erasure_is_found(file_it, alice):
    row = approve(file_it(Text("Letter", "Pay 5.")), alice)
    execution.commit(row.pk)
    end_retention(row.pk)
    retention.erase_due()
    Evidence.objects.create(transaction=row, number=1, content=b"Pay 5.")

    ours, theirs = faults()

    assert "evidence is not what was sealed" in ours
    assert "evidence is not what was sealed" in theirs


def test_a_decision_record_has_the_evidence_and_proves_it_offline(file_it, alice):
    row = approve(file_it(*EACH_KIND), alice)
    execution.commit(row.pk)
    checkpoints.make()
    record: dict[str, Any] = json.loads(
        decision_records.as_file(decision_records.of_transaction(row))
    )
    keys = [second.Key(record["keys"]["log"])]

    assert list(second.record_faults(record, keys, [])) == []
    assert [base64.b64decode(each) for each in record["evidence"]] == contents_of(row)
    record["evidence"][0] = base64.b64encode(b"Dear all").decode()
    assert "content of the evidence" in " ".join(second.record_faults(record, keys, []))
    del record["evidence"]
    assert "content of the evidence" in " ".join(second.record_faults(record, keys, []))


def test_a_plan_with_bad_evidence_prepares_nothing(file_it):
    for piece, refusal in (
        (File("a.png", "image/png", SVG), PlanFailed),
        (File("a.pdf", "application/pdf", "no bytes"), PlanFailed),
        (Text("Letter", "Pay 5\u202e0."), UnsafeText),
        (Text("Let\u200bter", "Pay."), UnsafeText),
    ):
        with pytest.raises(refusal):
            file_it(piece)
    assert not Transaction.objects.exists()
    assert not Evidence.objects.exists()


def test_words_that_imitate_others_are_marked_in_evidence_as_well(file_it):
    row = file_it(
        Text("Letter", "Pay to p\u0430ypal, please."), File("a.pdf", "application/pdf", PDF)
    )

    assert "mixes" in row.warnings[0]
