"""What attacks found: each was accepted once."""

from __future__ import annotations

import json

import pytest
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.utils import websafe_encode
from fido2.webauthn import Aaguid, AttestedCredentialData

from approvals.models import Passkey
from approvals.people import end_key, principal_of
from approvals.people.sign_in import passkeys_of
from ledger import execution, seals, states
from ledger.errors import NotPossible
from ledger.events import record_change
from ledger.models import Event, Grant, Tenant
from ledger.principals import POLICY, WORKER, user
from ledger.proof.log import checkpoints
from ledger.sign_off import grants
from ledger.states import State
from ledger.transactions import links_of, statement_of, why_not_to_act
from ledger.transactions.transitions import advance
from tests.authenticators import ORIGIN, Authenticator
from tests.conftest import propose
from tests.forgery import forge, move_deadline, reseal, reseal_row, rewrite
from tests.rules.test_proof import faults_of_both
from tests.signing.conftest import let_sign
from tests.signing.test_grants import allow, key
from tests.signing.test_proof import faults_of_record, inserted, record_of, scene
from tests.signing.test_signing import strict
from tests.signing.test_words import compensated, done

__all__ = ["done", "key", "scene", "strict"]
pytestmark = pytest.mark.django_db


def vote_by_grant(row, by, grant):
    """As the application's role can append it."""
    said = {
        "verdict": "approve",
        "intent_digest": row.intent_digest,
        "decision_at": seals.as_text(row.created_at),
        "grant": grant.pk,
        "signed_in_advance": True,
    }
    advance(row.pk, states.APPROVE, by=by, via="grant", reason=grant.why, details=said)
    row.refresh_from_db()


def statement_on(row):
    said = {"intent_digest": row.intent_digest, "verdict": "approve"}
    return statement_of(said, links_of(row.pk), "nonce")


def is_not_carried_out(row):
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state not in {State.COMMITTED, State.IN_DOUBT}
    assert not row.receipt
    return True


def test_a_worker_carries_out_nothing_that_a_signed_grant_does_not_cover(
    as_alice, alice, key, refund
):
    allow(as_alice, refund(), key)
    large = refund(order="large", amount="9000")
    assert large.state == State.PREPARED

    vote_by_grant(large, alice, Grant.objects.get())
    checkpoints.make()

    assert any("does not cover it" in fault for fault in faults_of_record(record_of(large)))
    assert is_not_carried_out(large)


def test_a_worker_carries_out_nothing_by_a_grant_that_had_ended(as_alice, alice, key, refund):
    allow(as_alice, refund(), key)
    grant = Grant.objects.get()
    grants.end(grant.pk, by=alice, via="web")
    later = refund(order="later")
    assert later.state == State.PREPARED

    vote_by_grant(later, alice, grant)

    assert is_not_carried_out(later)


def test_a_signed_grant_is_not_given_again_by_somebody_else(as_alice, alice, bob, key, refund):
    allow(as_alice, refund(), key)
    given = Event.objects.get(kind="grant_given")
    grants.end(Grant.objects.get().pk, by=alice, via="web")
    later = refund(order="later")
    says = {name: value for name, value in json.loads(given.details).items() if name != "subject"}
    record_change(
        "grant:77",
        "grant_given",
        tenant="acme",
        by=bob,
        via="web",
        name="",
        details=says,
        reason=given.reason,
    )

    vote_by_grant(later, alice, Grant(pk=77, why=given.reason))
    checkpoints.make()
    for faults in (*faults_of_both(), faults_of_record(record_of(later))):
        assert any("grant" in fault for fault in faults), faults

    assert is_not_carried_out(later)


def test_a_grant_whose_nonce_was_written_in_escapes_is_not_given_again(
    as_alice, alice, key, refund
):
    allow(as_alice, refund(), key)
    given, grant = Event.objects.get(kind="grant_given"), Grant.objects.get()
    grants.end(grant.pk, by=alice, via="web")
    says = {name: value for name, value in json.loads(given.details).items() if name != "subject"}
    nonce = says["assertion"]["nonce"]
    in_escapes = given.details.replace(nonce, f"\\u{ord(nonce[0]):04x}{nonce[1:]}")
    assert json.loads(in_escapes) == json.loads(given.details)
    forge("UPDATE ledger_event SET details = %s WHERE id = %s", in_escapes, given.pk)
    reseal(given.subject)
    later = refund(order="later")
    told = {"tenant": "acme", "by": alice, "via": "web", "details": says, "reason": given.reason}
    again = record_change("grant:77", "grant_given", **told)

    vote_by_grant(later, alice, Grant(pk=77, why=given.reason))
    checkpoints.make()

    assert "counted before" in why_not_to_act(later)
    for faults in faults_of_both():
        assert any(str(again.pk) in fault or "grant 77" in fault for fault in faults), faults
    assert is_not_carried_out(later)


def test_no_compensation_begins_in_the_name_of_the_system(done):
    said = {"reason": "Because."}
    advance(done.pk, states.COMPENSATE, by=WORKER, via="system", **said)
    done.refresh_from_db()

    assert "compensation_started" in why_not_to_act(done)
    for faults in faults_of_both():
        assert any("compensation_started" in fault for fault in faults), faults


def test_a_key_that_had_ended_signs_nothing_that_is_dated_back(scene):
    at = Event.objects.get(subject=scene.row.pk, kind="approved").at
    person = scene.people["alice"]
    end_key(person, passkeys_of(person).get().pk, by=principal_of(person), via="web")
    scene.row = propose("refund", order="ended", amount="20")
    statement = statement_on(scene.row)
    named = inserted(scene, assertion=scene.assertion("alice", statement))
    event = Event.objects.get(subject=scene.row.pk, kind="approved")
    forge("UPDATE ledger_event SET at = %s WHERE id = %s", at, event.pk)
    rewrite(event)

    scene.row.refresh_from_db()
    assert "no key with which" in why_not_to_act(scene.row)
    for faults in faults_of_both():
        assert any(named in fault and "no key with which" in fault for fault in faults), faults


def test_a_failed_word_does_not_use_up_a_key(as_olga, olga_user, done, has_key):
    key = has_key(olga_user)
    options = as_olga.post(f"/transactions/{done.pk}/sign", {"outcome": "compensate"}).json()
    key.counter = 2**32 - 2
    answer = json.loads(key.use(options))
    answer["response"]["signature"] = "AAAA"

    refused = compensated(as_olga, done, credential=json.dumps(answer), nonce=options["nonce"])

    assert refused.status_code == 403
    key.counter = passkeys_of(olga_user).get().sign_count
    assert key.counter < 2**31


@pytest.mark.parametrize("columns", [True, False], ids=["and its columns", "in its event alone"])
@pytest.mark.parametrize("of_contract", [True, False], ids=["its own", "of another contract"])
def test_nobody_signs_in_place_of_people_by_terms_without_seats(
    columns, of_contract, refund, strict
):
    strict("refund", "passkey")
    row = refund()
    terms = {name: part for name, part in row.terms.items() if name != "seats"}
    if not of_contract:
        terms |= {part: {"strength": "passkey"} for part in ("contract", "floor")}
    if columns:
        forge(
            "UPDATE ledger_transaction SET terms = %s, required_approver = 'NONE' WHERE id = %s",
            json.dumps(terms),
            row.pk,
        )
        reseal_row(row.pk)
    first = row.events.get(seq=1)
    rewrite(first, sets={**json.loads(first.details)["sets"], "terms": json.dumps(terms)})
    said = {"verdict": "approve", "intent_digest": row.intent_digest}
    said["decision_at"] = seals.as_text(row.created_at)
    advance(row.pk, states.APPROVE, by=POLICY, via="system", details=said)

    assert is_not_carried_out(row)


@pytest.mark.parametrize(
    "public_key",
    [*map(websafe_encode, (b"\x19", cbor.encode({1: 2, 3: -7}), cbor.encode({3: [1]})))],
)
def test_what_is_no_key_stops_no_verifier_and_no_worker(public_key, scene):
    key = {"credential": "AA", "public_key": public_key, "rp_id": "localhost", "origin": ORIGIN}
    by, alice = "user:1", str(principal_of(scene.people["alice"]))
    for kind, said in (
        ("change_requested", {"change": "signing_key_enrolled"}),
        ("signing_key_enrolled", {"waits_s": 0, "asked_by": by}),
    ):
        record_change(
            alice,
            kind,
            tenant="acme",
            by=user(by[5:]),
            via="web",
            name="",
            details={"key": key} | said,
        )
        by = "user:2"
    assertion = {**scene.signed(), "credential": "AA"}
    scene.row = propose("refund", order="no key", amount="20")
    inserted(scene, assertion=assertion)

    scene.row.refresh_from_db()
    assert "no key with which" in why_not_to_act(scene.row)
    for faults in faults_of_both():
        assert faults


def test_a_key_that_other_verifiers_cannot_read_is_not_let_sign(scene, olga_user, otto_user):
    """P-384 by its name, and P-256 by its numbers: one library reads it so, another one not."""
    person, odd = scene.people["alice"], Authenticator(b"odd")
    odd.add_to(person)
    passkey = passkeys_of(person).latest("pk")
    made = AttestedCredentialData(bytes(passkey.credential))
    shape = CoseKey.parse({**made.public_key, -1: 2})
    odd_one = AttestedCredentialData.create(Aaguid.NONE, b"odd", shape)
    Passkey.objects.filter(pk=passkey.pk).update(credential=bytes(odd_one))

    with pytest.raises(NotPossible):
        let_sign(person, odd, olga_user, otto_user)
    assert faults_of_both() == ([], [])


def test_nothing_is_carried_out_before_the_time_of_its_signature(scene, olga_user, otto_user, acme):
    """As if the waiting time of the key were over."""
    Tenant.objects.filter(pk=acme.pk).update(signing_key_hours=24)
    new = scene.keys["new"] = Authenticator(b"new")
    new.add_to(scene.people["alice"])
    let_sign(scene.people["alice"], new, olga_user, otto_user)
    scene.row = propose("refund", order="early", amount="20")
    move_deadline(scene.row.pk, 5 * 86_400_000)
    statement = statement_on(scene.row)
    inserted(scene, assertion=scene.assertion("new", statement))
    event = scene.row.events.get(kind="approved")
    forge("UPDATE ledger_event SET at = at + interval '2 days' WHERE id = %s", event.pk)
    rewrite(event)

    assert is_not_carried_out(scene.row)
    for faults in faults_of_both():
        assert any("before the time of an approval" in fault for fault in faults), faults


@pytest.mark.parametrize(
    "said",
    [{"groups": 5}, {"policy": 5}, {"sets": 5}, {"sets": {"terms": '{"strength": "x"}'}}],
    ids=str,
)
def test_an_event_that_cannot_be_read_ends_no_verifier(said, scene):
    rewrite(scene.vote(), **said)
    rewrite(scene.vote(scene.done), assertion=None)

    for faults in faults_of_both():
        assert any(str(scene.row.pk) in fault for fault in faults), faults
        assert any(str(scene.done.pk) in fault for fault in faults), faults
