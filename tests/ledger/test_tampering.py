"""What somebody does to the tables, and that both verifiers name the row.

Each line of the table is one tampering, done under a checkpoint, and then also before the
checkpoint is made, as by whoever was quick, so that only the rules of sign-off notice it and not
the signature.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import call_command
from django.db.models import Max

from examples import verify as second
from ledger import execution
from ledger.agents.policy_documents import Citation, keep_policy
from ledger.events import account_changes
from ledger.execution import redemption
from ledger.foundation.crypto import signed_notes
from ledger.foundation.crypto.signed_notes import TreeHead, signed
from ledger.models import Agent, Decision, Event, Permit, PolicyDocument, Tenant, Transaction
from ledger.models.events import Checkpoint, Tile
from ledger.principals import Principal, user
from ledger.proof import retention
from ledger.proof.audit import exports, verification
from ledger.proof.audit.verification import Broken
from ledger.proof.log import checkpoints
from ledger.seals import seals
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.forgery import end_retention, forge, reseal, reseal_row
from tests.permits.conftest import register
from tests.processes import until
from tests.tables import taken_back

OWN_KEY = Ed25519PrivateKey.from_private_bytes(bytes.fromhex("11" * 32))
PUBLIC_KEY = OWN_KEY.public_key().public_bytes_raw()
WITNESS = signed_notes.VerifierKey("w.example", signed_notes.COSIGNATURE, b"\x07" * 32)
SUPERVISOR = Principal("agent", "acme/supervisor", "Supervisor")


OLGA = user("olga", "Olga Novak")
APPROVERS = user("alice", "Alice Moreau"), user("bob", "Bob Tanaka")


@dataclass
class Ledger:
    """A small ledger with one of everything."""

    paid: Transaction
    scuttled: Transaction  # took two approvers
    rejected: Transaction
    refused: Transaction
    noted: Transaction  # signed off by policy
    waiting: Transaction
    undone: Transaction
    erased: Transaction  # its retention is over
    erasable: Transaction  # as well, and nothing was erased yet
    by_policy: Transaction  # a supervisor decided, and cited a paragraph
    permitted: Transaction  # its agent redeemed a permit

    def event(self, row: Transaction, kind: str) -> Event:
        return Event.objects.get(subject=row.pk, kind=kind)


@pytest.fixture(scope="module")
def untouched_ledger(django_db_setup, django_db_blocker) -> Iterator[Ledger]:
    """Made once, in a database transaction that stays open until all of them have been tried."""
    with django_db_blocker.unblock(), taken_back():
        acme = Tenant.objects.create(slug="acme", name="Acme Travel", tools=["*"])
        for slug in ("supervisor", "helpdesk"):
            Agent.objects.create(tenant=acme, slug=slug, name=slug.title())
        yield make_ledger()


@pytest.fixture
def ledger(untouched_ledger: Ledger, db: None, settings) -> Ledger:
    """The one ledger; what a test does to it is taken back after the test."""
    settings.WITNESSES = [f"https://w.example {WITNESS}"]
    return copy.deepcopy(untouched_ledger)


def approved(tool: str = "pay", **arguments: str) -> Transaction:
    row = propose(tool, **arguments)
    for approver in APPROVERS[: row.quorum]:
        row = coordinator.approve(row.pk, digest=row.intent_digest, by=approver, via="web")
    return row


def make_approver(person: Principal) -> None:
    for kind, tenant in (("user_created", ""), ("role_granted", "acme")):
        account_changes.record_change(
            str(person), kind, tenant=tenant, by=OLGA, via="admin", details={"role": "approver"}
        )


def make_ledger() -> Ledger:
    alice, bob = APPROVERS
    for approver in (*APPROVERS, user("second", "S")):
        make_approver(approver)
    paid, scuttled = approved(), approved("scuttle", rocket="r1")
    undone = approved()
    for row in (paid, scuttled, undone):
        execution.commit(row.pk)
    coordinator.compensate(undone.pk, by=alice, via="web", reason="wrong")
    execution.compensate(undone.pk)
    rejected = propose()
    coordinator.reject(rejected.pk, digest=rejected.intent_digest, by=bob, via="web", reason="no")
    execution.roll_back(rejected.pk)
    with pytest.raises(Exception, match="no such payment"):
        propose("pay", reference="unknown")
    refused = Transaction.objects.get(state="refused")
    noted = propose("write_note", text="hello")
    waiting = propose("scuttle", rocket="r2")
    coordinator.approve(waiting.pk, digest=waiting.intent_digest, by=alice, via="slack")
    account_changes.record_change("user:7", "user_created", by=alice, via="admin", tenant="")
    for tenant in ("acme", "globex"):  # one person, and roles in two tenants
        details = {"role": "approver"}
        account_changes.record_change(
            "user:7", "role_granted", tenant=tenant, by=alice, via="admin", details=details
        )
    erased, erasable = approved(), approved()
    for row in (erased, erasable):
        execution.commit(row.pk)
        end_retention(row.pk)
    retention.hold(erasable.pk, by=OLGA, via="admin", reason="a dispute")
    assert retention.erase_batch() == 1
    retention.release(erasable.pk, by=OLGA, via="admin", reason="settled")
    by_policy, permitted = decided_by_policy(), redeemed()
    changed_mind = undoable()
    coordinator.withdraw_approval(changed_mind.pk, by=alice, via="web")
    said = {"digest": changed_mind.intent_digest, "by": alice, "via": "web"}
    coordinator.approve(changed_mind.pk, **said)
    execution.commit(changed_mind.pk)
    ledger = Ledger(
        *(paid, scuttled, rejected, refused, noted, waiting, undone, erased, erasable),
        *(by_policy, permitted),
    )
    return ledger


def decided_by_policy() -> Transaction:
    document, _ = keep_policy(
        "acme", name="Furniture", version="1", text="1. Chairs are fine.", by=OLGA
    )
    row = propose("order", item="chair")
    cited = Citation(document.sha256, ("1",))
    return coordinator.approve(
        row.pk, digest=row.intent_digest, by=SUPERVISOR, via="api", policy=cited
    )


def redeemed() -> Transaction:
    register(Tenant.objects.get(slug="acme"))
    row = propose("delete_account", account="7")
    by = Principal("agent", "acme/helpdesk", "Helpdesk agent")
    coordinator.approve(row.pk, digest=row.intent_digest, by=APPROVERS[0], via="web")
    permit = redemption.issue(row.pk, by=by, via="api").permit
    redemption.redeem(permit.jti, by=str(by), via="api")
    return Transaction.objects.get(pk=row.pk)


def faults_of_both(patience: timedelta = timedelta(seconds=5)) -> tuple[list[str], list[str]]:
    try:
        verification.verify(frozenset({PUBLIC_KEY.hex()}), patience=patience)
        ours: list[str] = []
    except Broken as broken:
        ours = broken.faults
    theirs = second.verify(
        exports.export_lines(),
        [PUBLIC_KEY],
        patience.total_seconds(),
        witnesses=[second.Key(str(WITNESS))],
    )
    return ours, list(theirs)


def test_a_whole_ledger_is_whole_to_both(ledger):
    checkpoints.make()

    assert faults_of_both() == ([], [])


# --- ways to tamper -----------------------------------------------------------------------------

Tamper = Callable[[Ledger], str]  # what the fault must name


def column(name: str, sql: str, whose: str = "paid") -> Tamper:
    """One column of a transaction, with or without triggers."""

    def tamper(ledger: Ledger) -> str:
        row = getattr(ledger, whose)
        forge(f"UPDATE ledger_transaction SET {name} = {sql} WHERE id = %s", row.pk)
        return f"transaction {row.pk}"

    return tamper


def event(kind: str, name: str, sql: str, *, again: bool = False, whose: str = "paid") -> Tamper:
    """One column of an event; ``again`` with a chain of right hashes after it."""

    def tamper(ledger: Ledger) -> str:
        row = getattr(ledger, whose)
        found = ledger.event(row, kind)
        forge(f"UPDATE ledger_event SET {name} = {sql} WHERE id = %s", found.pk)
        if again:
            reseal(row.pk)
        return f"event {found.pk}"

    return tamper


def decision(name: str, sql: str) -> Tamper:
    def tamper(ledger: Ledger) -> str:
        found = Decision.objects.get(transaction=ledger.paid)
        forge(f"UPDATE ledger_decision SET {name} = {sql} WHERE id = %s", found.pk)
        return f"decision {found.pk}"

    return tamper


def decision_added(ledger: Ledger) -> str:
    added = Decision.objects.create(
        transaction=ledger.waiting,
        principal="user:mallory",
        principal_name="M",
        verdict="approve",
        intent_digest=ledger.waiting.intent_digest,
        via="web",
    )
    return f"decision {added.pk}"


def decision_deleted(ledger: Ledger) -> str:
    forge("DELETE FROM ledger_decision WHERE transaction_id = %s", ledger.paid.pk)
    return f"event {ledger.event(ledger.paid, 'approved').pk}"


def approved_past_the_verbs(ledger: Ledger) -> str:
    decision_added(ledger)
    Transaction.objects.filter(pk=ledger.waiting.pk).update(state="approved")
    return f"transaction {ledger.waiting.pk}"


def event_deleted(kind: str) -> Tamper:
    def tamper(ledger: Ledger) -> str:
        found = ledger.event(ledger.paid, kind)
        forge("DELETE FROM ledger_event WHERE id = %s", found.pk)
        return str(ledger.paid.pk)

    return tamper


def event_removed_and_chain_mended(ledger: Ledger) -> str:
    forge("DELETE FROM ledger_event WHERE id = %s", ledger.event(ledger.paid, "approved").pk)
    reseal(ledger.paid.pk)
    return f"transaction {ledger.paid.pk}"


def append(row: Transaction, kind: str, to: str, by: str, details: dict | None = None) -> Event:
    """As the application's own role can: the database seals it."""
    return Event.objects.create(
        subject=row.pk,
        transaction_id=row.pk,
        tenant=row.tenant,
        kind=kind,
        to_state=to,
        principal=by,
        principal_name=by,
        via="web",
        details=json.dumps(details or {}),
    )


def vote(by: str | None, whose: str = "waiting", **details: object) -> Tamper:
    """A sealed approval that the rules do not allow; the row follows it."""

    def tamper(ledger: Ledger) -> str:
        row = getattr(ledger, whose)
        said = {"intent_digest": row.intent_digest, "verdict": "approve", "sets": {}} | details
        who = by or row.proposed_by
        added = append(row, "approved", "approved", who, said)
        Transaction.objects.filter(pk=row.pk).update(state="approved")
        return f"event {added.pk}"

    return tamper


def second_vote_of_one_person(ledger: Ledger) -> str:
    by = ledger.event(ledger.waiting, "approval_recorded").principal
    return vote(by)(ledger)


def vote_after_expiry(ledger: Ledger) -> str:
    row = ledger.waiting
    forge(
        "UPDATE ledger_transaction SET created_at = created_at - interval '1 day', "
        "expires_at = created_at - interval '12 hours' WHERE id = %s",
        row.pk,
    )
    reseal_row(row.pk)
    return vote("user:second")(ledger)


def commit_without_claim(ledger: Ledger) -> str:
    outcome = {"receipt": "re_forged"}
    added = append(ledger.waiting, "committed", "committed", "system:worker", {"sets": outcome})
    forge(
        "UPDATE ledger_transaction SET state = 'committed', receipt = 're_forged' WHERE id = %s",
        ledger.waiting.pk,
    )
    return f"event {added.pk}"


def claim_without_approval(ledger: Ledger) -> str:
    added = append(ledger.waiting, "claimed", "committing", "system:worker")
    Transaction.objects.filter(pk=ledger.waiting.pk).update(state="committing")
    return f"event {added.pk}"


def claim_with_one_of_two(ledger: Ledger) -> str:
    """The whole chain rewritten so that one approver was enough to be approved."""
    row = ledger.waiting
    found = ledger.event(row, "approval_recorded")
    forge(
        "UPDATE ledger_event SET kind = 'approved', to_state = 'approved' WHERE id = %s", found.pk
    )
    reseal(row.pk)
    Transaction.objects.filter(pk=row.pk).update(state="approved")
    return f"event {found.pk}"


def row_and_seal_changed(sql: str, whose: str = "paid") -> Tamper:
    """Row, sealed digest and chain all changed to fit; the digest on the screen did not."""

    def tamper(ledger: Ledger) -> str:
        row = getattr(ledger, whose)
        forge(f"UPDATE ledger_transaction SET {sql} WHERE id = %s", row.pk)
        reseal_row(row.pk)
        return f"transaction {row.pk}"

    return tamper


def quorum_lowered_with_its_seal(ledger: Ledger) -> str:
    row = ledger.waiting
    forge("UPDATE ledger_transaction SET quorum = 1 WHERE id = %s", row.pk)
    reseal_row(row.pk)
    return "checkpoint"


def proposal_backdated_to_nobody_asked(ledger: Ledger) -> str:
    row = ledger.paid
    forge("UPDATE ledger_transaction SET required_approver = 'NONE' WHERE id = %s", row.pk)
    reseal_row(row.pk)
    return "checkpoint"


def compensated_by_the_proposer(ledger: Ledger) -> str:
    added = append(
        ledger.paid, "compensation_started", "compensating", ledger.paid.proposed_by, {"sets": {}}
    )
    Transaction.objects.filter(pk=ledger.paid.pk).update(state="compensating")
    return f"event {added.pk}"


def compensated(first: str, second: str, **words: str) -> Tamper:
    """Something critical is made up for on words that are not those of two operators."""

    def tamper(ledger: Ledger) -> str:
        row = ledger.scuttled
        if first:
            said = {"outcome": "compensate", "receipt": "", "sets": {}} | words
            append(row, "settlement_proposed", row.state, first, said)
        confirmed = {"first_word_by": first or "user:first", "first_word": "x", "sets": {}}
        added = append(row, "compensation_started", "compensating", second, confirmed)
        Transaction.objects.filter(pk=row.pk).update(state="compensating")
        return f"event {added.pk}"

    return tamper


def compensated_on_one_word(ledger: Ledger) -> str:
    row = ledger.scuttled
    append(row, "compensation_started", "compensating", "user:mallory", {"sets": {}})
    Transaction.objects.filter(pk=row.pk).update(state="compensating")
    return f"event {ledger.event(row, 'compensation_started').pk}"


def compensated_on_a_word_taken_back(ledger: Ledger) -> str:
    row = ledger.scuttled
    said = {"outcome": "compensate", "receipt": "", "sets": {}}
    append(row, "settlement_proposed", row.state, "user:first", said)
    append(row, "settlement_declined", row.state, "user:first", {"sets": {}})
    confirmed = {"first_word_by": "user:first", "first_word": "x", "sets": {}}
    added = append(row, "compensation_started", "compensating", "user:second", confirmed)
    Transaction.objects.filter(pk=row.pk).update(state="compensating")
    return f"event {added.pk}"


def canceled_by_somebody_else(ledger: Ledger) -> str:
    added = append(ledger.waiting, "canceled", "rolling_back", "user:mallory", {"sets": {}})
    Transaction.objects.filter(pk=ledger.waiting.pk).update(state="rolling_back")
    return f"event {added.pk}"


def undoable() -> Transaction:
    """Alice has approved it, and can undo that."""
    row = propose()
    return coordinator.approve(
        row.pk, digest=row.intent_digest, by=APPROVERS[0], via="web", undo_seconds=60
    )


def withdraw(row: Transaction, by: str = "user:alice", to: str = "prepared") -> Event:
    """A sealed withdrawal of the approval of alice; row and decision follow it."""
    approval = Event.objects.filter(subject=row.pk, kind__startswith="appro").latest("seq")
    details = {
        "decision_at": json.loads(approval.details)["decision_at"],
        "sets": {"decided_at": ""},
    }
    added = append(row, "approval_withdrawn", to, by, details)
    forge("UPDATE ledger_decision SET is_withdrawn = true WHERE transaction_id = %s", row.pk)
    Transaction.objects.filter(pk=row.pk).update(state=to, decided_at=None, next_attempt_at=None)
    return added


def withdrawn_by_somebody_else(ledger: Ledger) -> str:
    return f"event {withdraw(undoable(), 'user:bob').pk}"


def withdrawn_by_the_proposer(ledger: Ledger) -> str:
    row = undoable()
    return f"event {withdraw(row, row.proposed_by).pk}"


def withdrawn_after_the_effect(ledger: Ledger) -> str:
    return f"event {withdraw(ledger.paid).pk}"


def withdrawn_without_seconds_for_it(ledger: Ledger) -> str:
    return f"event {withdraw(ledger.waiting).pk}"


def withdrawn_too_late(ledger: Ledger) -> str:
    row = undoable()
    added = withdraw(row)
    forge("UPDATE ledger_event SET at = at + interval '61 seconds' WHERE id = %s", added.pk)
    reseal(row.pk)
    return f"event {added.pk}"


def withdrawn_twice(ledger: Ledger) -> str:
    row = undoable()
    withdraw(row)
    return f"event {withdraw(row).pk}"


def begun_while_it_could_be_withdrawn(ledger: Ledger) -> str:
    row = undoable()
    added = append(row, "claimed", "committing", "system:worker", {"sets": {}})
    Transaction.objects.filter(pk=row.pk).update(state="committing")
    return f"event {added.pk}"


def withdrawn_approval_counted(ledger: Ledger) -> str:
    """One of two was withdrawn in time, and the other one was taken to be enough."""
    row = ledger.waiting
    given = ledger.event(row, "approval_recorded")
    forge(
        "UPDATE ledger_event SET details = replace(details, '\"verdict\"', "
        '\'"undo_seconds":60,"verdict"\') WHERE id = %s',
        given.pk,
    )
    forge("UPDATE ledger_event SET at = clock_timestamp() WHERE id = %s", given.pk)
    reseal(row.pk)
    withdraw(row)
    counted = vote("user:bob")(ledger)
    return f"{counted} of transaction {row.pk}: there are not enough approvals"


def withdrawal_without_its_mark(ledger: Ledger) -> str:
    row = undoable()
    withdraw(row)
    forge("UPDATE ledger_decision SET is_withdrawn = false WHERE transaction_id = %s", row.pk)
    return f"decision {Decision.objects.get(transaction=row).pk}"


def unknown_kind(ledger: Ledger) -> str:
    added = append(ledger.waiting, "blessed", "approved", "user:mallory")
    Transaction.objects.filter(pk=ledger.waiting.pk).update(state="approved")
    return f"event {added.pk}"


def transaction_without_events(ledger: Ledger) -> str:
    row = Transaction.objects.get(pk=ledger.waiting.pk)
    row.pk, row.operation_key = None, "forged"
    row.id = Transaction._meta.pk.get_default()
    row.state = "committed"
    row.receipt = "re_forged"
    row.save(force_insert=True)
    return f"transaction {row.pk}"


def row_deleted(ledger: Ledger) -> str:
    forge("DELETE FROM ledger_transaction WHERE id = %s", ledger.paid.pk)
    return f"transaction {ledger.paid.pk}"


def whole_transaction_deleted(ledger: Ledger) -> str:
    for table in ("event", "decision"):
        forge(f"DELETE FROM ledger_{table} WHERE transaction_id = %s", ledger.paid.pk)
    forge("DELETE FROM ledger_transaction WHERE id = %s", ledger.paid.pk)
    return "checkpoint"


def receipt_changed_in_its_event(ledger: Ledger) -> str:
    event("committed", "details", """'{"sets":{"receipt":"re_x"}}'""", again=True)(ledger)
    return f"transaction {ledger.paid.pk}"


def account_change_rewritten(ledger: Ledger) -> str:
    subject = account_changes.chain_of("user:7")
    found = Event.objects.filter(subject=subject).latest("seq")
    forge("UPDATE ledger_event SET principal = 'user:9' WHERE id = %s", found.pk)
    reseal(subject)
    return "checkpoint"


def checkpoint_signed_by_another_key(ledger: Ledger) -> str:
    key = Ed25519PrivateKey.generate()
    point = checkpoints.latest()
    head = TreeHead.parse(checkpoints.signed_note(point).text)
    forge(
        "UPDATE ledger_checkpoint SET note = %s, public_key = %s WHERE id = %s",
        str(signed(str(head), head.origin, key)),
        key.public_key().public_bytes_raw().hex(),
        point.pk,
    )
    return f"checkpoint of {point.size} events"


def checkpoint_changed(ledger: Ledger) -> str:
    point = checkpoints.latest()
    forge("UPDATE ledger_checkpoint SET root = repeat('0', 64) WHERE id = %s", point.pk)
    return f"checkpoint of {point.size} events"


def newest_checkpoint_and_all_under_it_deleted(ledger: Ledger) -> str:
    propose("pay")
    until(checkpoints.make, what="no writer is in the way")
    cut_off_newest()
    return "tile 0/0"


def middle_checkpoint_deleted(ledger: Ledger) -> str:
    for _ in range(2):
        propose("pay")
        until(checkpoints.make, what="no writer is in the way")
    middle, last = Checkpoint.objects.order_by("-size")[1::-1]
    forge("DELETE FROM ledger_checkpoint WHERE id = %s", middle.pk)
    return f"the checkpoint of {last.size} events does not follow"


def checkpoint_of_anybody(ledger: Ledger) -> str:
    Checkpoint.objects.create(size=10**12, upto_event=10**12, root="x", note="", public_key="")
    return f"checkpoint of {10**12} events"


def event_put_into_a_gap(ledger: Ledger) -> str:
    """Its id is below those that a checkpoint covers."""
    forge("UPDATE ledger_event SET id = -1 WHERE id = %s", append(ledger.paid, "x", "x", "x").pk)
    return "checkpoint"


def event_with_the_largest_id(ledger: Ledger) -> str:
    added = append(ledger.paid, "blessed", "committed", "user:mallory").pk
    forge("UPDATE ledger_event SET id = %s WHERE id = %s", 2**63 - 1, added)
    return f"event {2**63 - 1}"


def tile_changed(sql: str) -> Tamper:
    def tamper(ledger: Ledger) -> str:
        forge(f"UPDATE ledger_tile SET hashes = {sql} WHERE level = 0 AND index = 0")
        return "tile 0/0"

    return tamper


def cosignature(is_rubbish: bool) -> Tamper:
    def tamper(ledger: Ledger) -> str:
        point = checkpoints.latest()
        forged = signed_notes.Signature(WITNESS.name, WITNESS.key_id, bytes(72))
        line = "rubbish" if is_rubbish else str(forged).strip()
        point.cosignatures.create(witness=WITNESS.name, line=line)
        return f"checkpoint of {point.size} events"

    return tamper


def manifest_exchanged(ledger: Ledger) -> str:
    version = Transaction.objects.get(pk=ledger.permitted.pk).tool_version
    forge("""UPDATE ledger_toolversion SET manifest = manifest || '{"description": "Another."}'""")
    return f"tool_version {version}"


def role_event_deleted(ledger: Ledger) -> str:
    last = Event.objects.filter(subject=account_changes.chain_of("user:7")).latest("seq")
    forge("DELETE FROM ledger_event WHERE id = %s", last.pk)
    return "checkpoint"


def decisions_swapped(ledger: Ledger) -> str:
    """The two that signed the same thing off, each in the name of the other."""
    one, two = Decision.objects.filter(transaction=ledger.scuttled).order_by("pk")
    for row, other in ((one, two), (two, one)):
        forge(
            "UPDATE ledger_decision SET principal = %s, principal_name = %s WHERE id = %s",
            *("user:spare" if row is one else other.principal, other.principal_name, row.pk),
        )
    forge("UPDATE ledger_decision SET principal = %s WHERE id = %s", two.principal, one.pk)
    return f"decision {one.pk}"


def decision_hidden_by_an_erasure(ledger: Ledger) -> str:
    """Content is erased in time; a decision goes with it, which no erasure takes."""
    erasure()(ledger)
    row = ledger.erasable
    forge("DELETE FROM ledger_decision WHERE transaction_id = %s", row.pk)
    return f"event {ledger.event(row, 'approved').pk}"


def redemption_emptied(ledger: Ledger) -> str:
    permit = Permit.objects.get(transaction=ledger.permitted)
    forge("UPDATE ledger_permit SET redeemed_at = NULL, redeemed_by = '', redeem_key = ''")
    return f"permit {permit.jti}"


def permit_deleted(ledger: Ledger) -> str:
    permit = Permit.objects.get(transaction=ledger.permitted)
    forge("DELETE FROM ledger_permit WHERE jti = %s", permit.pk)
    return f"permit {permit.jti}"


def policy_replaced(ledger: Ledger) -> str:
    """With the hash of the new text: the database itself keeps those two together."""
    document = PolicyDocument.objects.get()
    forge(
        "UPDATE ledger_policydocument SET text = %s, sha256 = %s",
        "1. All is fine.",
        seals.digest_of_text("1. All is fine."),
    )
    return f"({document.sha256})"


def event_without_transaction(ledger: Ledger) -> str:
    found = ledger.event(ledger.paid, "approved")
    forge("UPDATE ledger_event SET transaction_id = NULL WHERE id = %s", found.pk)
    return f"transaction {ledger.paid.pk}"


def order_of_events_swapped(ledger: Ledger) -> str:
    one, two = ledger.event(ledger.paid, "approved"), ledger.event(ledger.paid, "claimed")
    spare = Event.objects.aggregate(last=Max("pk"))["last"] + 1
    for old, new in ((one.pk, spare), (two.pk, one.pk), (spare, two.pk)):
        forge("UPDATE ledger_event SET id = %s WHERE id = %s", new, old)
    return "checkpoint"


def emptied_without_an_event(ledger: Ledger) -> str:
    """What an erasure does to the row, and nothing that says so."""
    forge(
        "UPDATE ledger_transaction SET stated_reason = '', payload = '{}', arguments = '{}', "
        "action_summary = '', warnings = '[]', held = '{}', result = NULL, ending_reason = '', "
        "content_erased_at = now() WHERE id = %s",
        ledger.paid.pk,
    )
    return f"transaction {ledger.paid.pk}"


def erasure(
    whose: str = "erasable", by: str = "system:sweeper", hold: bool = False, **changed: object
) -> Tamper:
    """An erasure as the application's own role can write it, against the rules."""

    def tamper(ledger: Ledger) -> str:
        row = Transaction.objects.get(pk=getattr(ledger, whose).pk)
        if hold:
            held_at = seals.as_text(row.created_at)
            append(
                row, "legal_hold_placed", row.state, "user:9", {"sets": {"legal_hold_at": held_at}}
            )
            Transaction.objects.filter(pk=row.pk).update(legal_hold_at=row.created_at)
        sets = {
            "content_erased_at": seals.as_text(row.created_at),
            "ending_reason": "",
            "result": seals.OUTCOME["result"],
        }
        said = {"erased": seals.digests_of(row) | changed, "sets": sets}
        added = append(row, "content_erased", row.state, by, said)
        Transaction.objects.filter(pk=row.pk).update(
            content_erased_at=row.created_at, **seals.EMPTY
        )
        retention.erase_reasons([row.pk])
        Decision.objects.filter(transaction=row).update(reason="")
        return f"transaction {row.pk}" if changed else f"event {added.pk}"

    return tamper


def erasure_without_its_time(ledger: Ledger) -> str:
    row = Transaction.objects.get(pk=ledger.erasable.pk)
    sets = {"content_erased_at": "", "ending_reason": "", "result": seals.OUTCOME["result"]}
    said = {"erased": seals.digests_of(row), "sets": sets}
    append(row, "content_erased", row.state, "system:sweeper", said)
    Transaction.objects.filter(pk=row.pk).update(**seals.EMPTY)
    retention.erase_reasons([row.pk])
    Decision.objects.filter(transaction=row).update(reason="")
    return f"transaction {row.pk}"


def hold_released_by(who: str) -> Tamper:
    def tamper(ledger: Ledger) -> str:
        row = ledger.erasable
        held_at = {"sets": {"legal_hold_at": seals.as_text(row.created_at)}}
        append(row, "legal_hold_placed", row.state, "user:9", held_at)
        released = {"sets": {"legal_hold_at": ""}}
        return f"event {append(row, 'legal_hold_released', row.state, who, released).pk}"

    return tamper


def erased_reason_denied(ledger: Ledger) -> str:
    event("approved", "reason_digest", "repeat('0', 64)", whose="erased", again=True)(ledger)
    return "checkpoint"


def erased_twice(ledger: Ledger) -> str:
    row = ledger.erased
    before = json.loads(ledger.event(row, "content_erased").details)
    added = append(row, "content_erased", row.state, "system:sweeper", before)
    return f"event {added.pk}"


ANOTHER = "'agent:acme/another'"
TABLE: dict[str, Tamper] = {
    # columns of the row
    "amount": column("amount", "1"),
    "currency": column("currency", "'USD'"),
    "arguments": column("arguments", """'{"reference": "x"}'"""),
    "payload": column("payload", "'{}'"),
    "summary": column("action_summary", "'Nothing much'"),
    "warnings": column("warnings", """'["fine"]'"""),
    "stated reason": column("stated_reason", "'because'"),
    "held": column("held", "'{}'"),
    "deadline": column("expires_at", "expires_at + interval '1 day'"),
    "created at": column("created_at", "created_at - interval '1 day'"),
    "retention": column("retain_until", "retain_until - interval '1 year'"),
    "tool": column("tool", "'launch'"),
    "tenant": column("tenant", "'globex'"),
    "proposer": column("proposed_by", ANOTHER),
    "proposer's name": column("proposed_by_name", "'Another'"),
    "quorum": column("quorum", "1", "scuttled"),
    "required approver": column("required_approver", "'NONE'"),
    "risk level": column("risk_level", "'LOW'"),
    "consequence level": column("consequence_level", "'REVERSIBLE'"),
    "owner": column("owner_service", "'another'"),
    "operation key": column("operation_key", "'another'"),
    "input hash": column("input_hash", "repeat('0', 64)"),
    "intent digest": column("intent_digest", "repeat('0', 64)"),
    "run, step and trace": column("trace_id", "repeat('0', 32)"),
    "receipt": column("receipt", "'re_forged'"),
    "receipt's address": column("receipt_url", "'https://evil.example'"),
    "result": column("result", """'{"receipt_id": "re_forged"}'"""),
    "result removed": column("result", "NULL"),
    "state": column("state", "'failed'"),
    "ending": column("ending", "'expired'", "rejected"),
    "reason of the ending": column("ending_reason", "'another'", "rejected"),
    "reason of a refusal": column("ending_reason", "'another'", "refused"),
    "time of the decision": column("decided_at", "decided_at - interval '1 hour'"),
    "time of the end": column("ended_at", "ended_at - interval '1 hour'"),
    "receipt of the compensation": column("compensation_receipt", "'undo_forged'", "undone"),
    "transaction without events": transaction_without_events,
    "row deleted": row_deleted,
    "everything of a transaction deleted": whole_transaction_deleted,
    # decisions
    "decision turned round": decision("verdict", "'reject'"),
    "decision given to somebody else": decision("principal", "'user:mallory'"),
    "name of who decided": decision("principal_name", "'Mallory'"),
    "channel of a decision": decision("via", "'slack'"),
    "reason of a decision": decision("reason", "'because'"),
    "digest of a decision": decision("intent_digest", "repeat('0', 64)"),
    "time of a decision": decision("at", "at - interval '1 hour'"),
    "decision moved to another transaction": decision(
        "transaction_id", "(SELECT id FROM ledger_transaction WHERE state = 'refused')"
    ),
    "decision added": decision_added,
    "decision deleted": decision_deleted,
    "decision added and state changed": approved_past_the_verbs,
    # events
    "who approved": event("approved", "principal", "'user:mallory'"),
    "name in an event": event("approved", "principal_name", "'Mallory'"),
    "reason in an event": event("approved", "reason", "'because'"),
    "details of an event": event("committed", "details", "'{}'"),
    "time of an event": event("approved", "at", "at - interval '1 hour'"),
    "tenant of an event": event("approved", "tenant", "'globex'"),
    "channel of an event": event("approved", "via", "'slack'"),
    "first event deleted": event_deleted("prepared"),
    "an event deleted": event_deleted("approved"),
    "last event deleted": event_deleted("committed"),
    "event of no transaction": event_without_transaction,
    "approval cut out, chain mended": event_removed_and_chain_mended,
    "who approved, chain mended": event("approved", "principal", "'user:mallory'", again=True),
    "receipt in the event, chain mended": receipt_changed_in_its_event,
    "order of events": order_of_events_swapped,
    "change of an account, chain mended": account_change_rewritten,
    # sign-offs that were none
    "approval by the proposer": vote(None),
    "approval by an agent": vote(str(SUPERVISOR)),
    "approval by the system": vote("system:worker"),
    "approval by policy where a person is asked for": vote("system:policy"),
    "second approval of one person": second_vote_of_one_person,
    "approval of something else": vote("user:second", intent_digest="0" * 64),
    "approval that says reject": vote("user:second", verdict="reject"),
    "approval after the time was up": vote_after_expiry,
    "approval of what was rejected": vote("user:second", "rejected"),
    "approval without decision": vote("user:second"),
    "commit without claim": commit_without_claim,
    "claim without approval": claim_without_approval,
    "one approver of two": claim_with_one_of_two,
    "compensation ordered by the proposer": compensated_by_the_proposer,
    "something critical made up for on one word": compensated_on_one_word,
    "both words by one operator": compensated("user:first", "user:first"),
    "the second word without the first": compensated("", "user:second"),
    "the first word was on something else": compensated(
        "user:first", "user:second", outcome="keep_receipt"
    ),
    "the first word was taken back": compensated_on_a_word_taken_back,
    "cancel by somebody else": canceled_by_somebody_else,
    "withdrawal by somebody else": withdrawn_by_somebody_else,
    "withdrawal by the proposer": withdrawn_by_the_proposer,
    "withdrawal after the effect": withdrawn_after_the_effect,
    "withdrawal of what could not be withdrawn": withdrawn_without_seconds_for_it,
    "withdrawal after its time": withdrawn_too_late,
    "second withdrawal": withdrawn_twice,
    "begun while it could be withdrawn": begun_while_it_could_be_withdrawn,
    "withdrawn approval counted": withdrawn_approval_counted,
    "decision marked as withdrawn": decision("is_withdrawn", "true"),
    "withdrawal without its mark": withdrawal_without_its_mark,
    "a kind that is no move": unknown_kind,
    # row and seal together
    "amount with its seal": row_and_seal_changed("amount = 1"),
    "summary with its seal": row_and_seal_changed("action_summary = 'Nothing much'"),
    "proposer with its seal": row_and_seal_changed(f"proposed_by = {ANOTHER}"),
    "quorum with its seal": quorum_lowered_with_its_seal,
    "required approver with its seal": proposal_backdated_to_nobody_asked,
    # retention
    "emptied without an erasure": emptied_without_an_event,
    "another content after the erasure": column("action_summary", "'Nothing much'", "erased"),
    "other arguments after the erasure": column("arguments", """'{"a": 1}'""", "erased"),
    "another result after the erasure": column("result", """'{"a": 1}'""", "erased"),
    "amount after the erasure": column("amount", "1", "erased"),
    "operation key after the erasure": column("operation_key", "'another'", "erased"),
    "retention after the erasure": column(
        "retain_until", "retain_until - interval '1 day'", "erased"
    ),
    "time of the erasure": column("content_erased_at", "now() - interval '1 day'", "erased"),
    "erasure denied": column("content_erased_at", "NULL", "erased"),
    "reason put back after the erasure": event("approved", "reason", "'fine'", whose="erased"),
    "digest of an erased reason": event(
        "approved", "reason_digest", "repeat('0', 64)", whose="erased"
    ),
    "digest of an erased reason, chain mended": erased_reason_denied,
    "hold hidden": column("legal_hold_at", "now()", "erased"),
    "erasure before its time": erasure("paid"),
    "erasure by a person": erasure(by="user:9"),
    "erasure under a legal hold": erasure(hold=True),
    "erasure of other arguments": erasure(arguments="0" * 64),
    "erasure of another result": erasure(result="0" * 64),
    "second erasure": erased_twice,
    "erasure without its time": erasure_without_its_time,
    "hold released by the system": hold_released_by("system:sweeper"),
    "hold released by an agent": hold_released_by("agent:acme/another"),
    # checkpoints
    "checkpoint signed by another key": checkpoint_signed_by_another_key,
    "checkpoint changed": checkpoint_changed,
    "newest checkpoint and all under it deleted": newest_checkpoint_and_all_under_it_deleted,
    "checkpoint in the middle deleted": middle_checkpoint_deleted,
    "checkpoint of anybody": checkpoint_of_anybody,
    "event put into a gap": event_put_into_a_gap,
    "event with the largest id": event_with_the_largest_id,
    "tile zeroed": tile_changed("decode(repeat('00', length(hashes)), 'hex')"),
    "tile grown": tile_changed("hashes || decode(repeat('00', 32), 'hex')"),
    "cosignature that is rubbish": cosignature(is_rubbish=True),
    "cosignature forged": cosignature(is_rubbish=False),
    # rows of other tables that events name
    "manifest of a tool's version exchanged": manifest_exchanged,
    "role's event deleted": role_event_deleted,
    "decisions swapped": decisions_swapped,
    "decision hidden by an erasure": decision_hidden_by_an_erasure,
    "redemption of a permit emptied": redemption_emptied,
    "permit deleted": permit_deleted,
    "policy document replaced": policy_replaced,
}

# Against these only the signatures help, so they are of no use before the checkpoint is made.
ONLY_BY_CHECKPOINT = {
    "digest of an erased reason, chain mended",
    "everything of a transaction deleted",
    "order of events",
    "change of an account, chain mended",
    "quorum with its seal",
    "required approver with its seal",
    "checkpoint signed by another key",
    "checkpoint changed",
    "newest checkpoint and all under it deleted",
    "checkpoint in the middle deleted",
    "checkpoint of anybody",
    "event put into a gap",
    "event with the largest id",
    "tile zeroed",
    "tile grown",
    "cosignature that is rubbish",
    "cosignature forged",
    "role's event deleted",
}


@pytest.mark.parametrize("name", TABLE)
def test_what_was_changed_is_noticed_by_both_and_the_row_is_named(ledger, name):
    with taken_back():
        until(checkpoints.make, what="no writer is in the way")
        _assert_both_name(TABLE[name](ledger))
    if name not in ONLY_BY_CHECKPOINT:
        # Changed before the checkpoint, which signs whatever is there: the rules prove sign-off.
        with taken_back():
            named = TABLE[name](ledger)
            until(checkpoints.make, what="no writer is in the way")
            _assert_both_name(named)


def _assert_both_name(named: str) -> None:
    ours, theirs = faults_of_both()
    assert any(named in fault for fault in ours), (named, ours)
    assert any(named in fault for fault in theirs), (named, theirs)


def test_checkpoints_that_were_all_deleted_are_noticed_once_one_is_due(ledger):
    with taken_back():
        for table in ("cosignature", "checkpoint", "tile"):
            forge(f"DELETE FROM ledger_{table}")

        for faults in faults_of_both(timedelta(0)):
            assert any("no checkpoint is there" in fault for fault in faults)


def test_a_checkpoint_that_was_deleted_is_noticed_by_the_copy_outside(ledger, a_payment, tmp_path):
    checkpoints.make()
    tiles = list(Tile.objects.values_list("hashes", "id"))
    a_payment()
    gone = checkpoints.make()
    outside = tmp_path / "outside"
    outside.write_text(f"{gone.note}\n")
    cut_off_newest()
    for hashes, tile in tiles:
        forge("UPDATE ledger_tile SET hashes = %s WHERE id = %s", hashes, tile)

    assert faults_of_both() == ([], [])  # this copy alone does not show it
    with pytest.raises(Broken, match=f"checkpoint of {gone.size} events, published outside"):
        verification.verify(frozenset({PUBLIC_KEY.hex()}), against=[outside.read_text()])
    theirs = list(second.verify(exports.export_lines(), [PUBLIC_KEY], 300, outside.read_text()))
    assert any(f"checkpoint of {gone.size} events" in fault for fault in theirs), theirs


def cut_off_newest() -> None:
    """The last checkpoint, and the one transaction under it alone."""
    point = Checkpoint.objects.latest("size")
    subject = Event.objects.order_by("pk").last().subject
    forge("DELETE FROM ledger_delivery")
    for table in ("event", "idempotencykey"):
        forge(f"DELETE FROM ledger_{table} WHERE transaction_id = %s", subject)
    forge("DELETE FROM ledger_transaction WHERE id = %s", subject)
    forge("DELETE FROM ledger_checkpoint WHERE id = %s", point.pk)


# --- what cannot be noticed, and is documented as such (docs/audit.md) ---------------------------


def test_not_noticed_a_row_that_was_rewritten_whole_before_any_checkpoint(ledger):
    """The owner of the database, quicker than the checkpoint, is believed. Hence a minute."""
    ledger.paid.refresh_from_db()
    forge("UPDATE ledger_transaction SET stated_reason = 'because' WHERE id = %s", ledger.paid.pk)
    reseal_row(ledger.paid.pk)
    checkpoints.make()

    assert faults_of_both() == ([], [])


def test_not_noticed_what_is_newer_than_the_last_checkpoint_and_was_deleted(ledger):
    checkpoints.make()
    newest = propose("pay")
    forge("DELETE FROM ledger_delivery")
    for table in ("event", "idempotencykey"):
        forge(f"DELETE FROM ledger_{table} WHERE transaction_id = %s", newest.pk)
    forge("DELETE FROM ledger_transaction WHERE id = %s", newest.pk)

    assert faults_of_both() == ([], [])


def test_not_noticed_a_person_in_whose_name_the_application_itself_approves(ledger):
    """People sign nothing themselves: the log says who the application says it was."""
    row = ledger.waiting
    coordinator.approve(
        row.pk, digest=row.intent_digest, by=Principal("user", "second", "S"), via="web"
    )
    checkpoints.make()

    assert faults_of_both() == ([], [])


# --- the second verifier, and what is sealed -----------------------------------------------------


def test_both_verifiers_know_the_same_maps_and_columns():
    from a2a.states import BY_KIND as TASKS
    from ledger.transactions.sign_offs import MOVES

    for name, arrows in (("transaction", MOVES), ("task", TASKS)):
        ours = {kind: (set(arrow.sources), arrow.target) for kind, arrow in arrows.items()}
        assert second.MOVES[name] == ours
    assert tuple(second.FIXED) == seals.FIXED
    assert tuple(second.OUTCOME) == tuple(seals.OUTCOME)


def test_every_column_of_a_transaction_is_sealed_or_known_not_to_be():
    columns = {field.name for field in Transaction._meta.concrete_fields}

    of_first_event = {seals.KEEPER_MAY_SIGN, seals.REQUIRED_POLICY, seals.EVIDENCE}
    of_all_events = {"state", "open_seats"}
    assert columns == {
        *seals.FIXED,
        *seals.OUTCOME,
        *seals.UNSEALED,
        *of_first_event,
        *of_all_events,
    }


def test_the_second_verifier_imports_nothing_of_ours():
    import ast
    from pathlib import Path

    tree = ast.parse(Path(second.__file__).read_text())
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    ours = {"ledger", "a2a", "approvals", "django", "tests", "examples"}
    assert not {name.partition(".")[0] for name in imported if name} & ours


def test_numbers_of_every_kind_are_sealed_alike_by_both(a_transaction):
    from ledger.seals.intents import canonical_as_stored

    values = [
        0,
        -0.0,
        1,
        1.0,
        1.5,
        -2.25,
        1e-7,
        1.5e-9,
        0.000001,
        123456.789,
        5e-324,
        1e15,
        2**53 - 1,
        2**53,
        -(2**53),
        1e16,
        1e22,
        1.7976931348623157e308,
        True,
        None,
        'é\u2028\x1f"\\',
        {"\U0001f600": 1, "\ufb33": 2, "a": [{}]},
        333333333.33333329,
        9007199254740993,
    ]
    for value in values:
        assert second.canonical(value) == canonical_as_stored(value).decode(), value


def test_the_second_verifier_runs_as_a_program(ledger, tmp_path):
    import subprocess
    import sys

    checkpoints.make()
    export = tmp_path / "ledger.jsonl"
    call_command("export_ledger", str(export))

    def run():
        return subprocess.run(
            [sys.executable, second.__file__, str(export), "--public-key", PUBLIC_KEY.hex()],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=tmp_path,
        )

    whole = run()
    export.write_text(export.read_text().replace('"amount":"48.200000"', '"amount":"0.010000"', 1))
    forged = run()
    export.write_text("".join(export.read_text().splitlines(keepends=True)[:-3]))
    cut = run()

    assert (whole.returncode, whole.stdout) == (0, f"{second.WHOLE_SO_FAR}\n")
    assert forged.returncode == 1
    assert "is not what was prepared" in forged.stdout
    assert "the export is not complete" in cut.stdout


def test_the_page_for_auditors_has_every_move_and_every_column():
    page = (Path(second.__file__).parent.parent / "docs" / "audit.md").read_text()
    words = set(re.findall(r"[a-z_]+", page))

    for moves in second.MOVES.values():
        for kind, (_, target) in moves.items():
            row = re.search(rf"^\| `{kind}` \| (.*) \| (.*) \|$", page, re.MULTILINE)
            assert row is not None, kind
            assert row[2] == (target or "")
    assert {*seals.FIXED, *seals.OUTCOME, *seals.UNSEALED, *seals.Link._fields} <= words
