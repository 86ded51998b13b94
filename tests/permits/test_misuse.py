"""What nobody may do with a permit: other agents, forged and changed texts, receipts of no use."""

from __future__ import annotations

import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings as django_settings
from django.test import Client

from ledger.events import brakes
from ledger.foundation.crypto import signing_keys
from ledger.models import Agent, Event, Permit, Tenant, Transaction
from ledger.principals import SWEEPER, Surface
from ledger.tools import permits, registrations
from ledger.tools.manifests import ManifestRefused, read
from ledger.tools.permits import PermitRefused
from tests.conftest import propose
from tests.forgery import forge
from tests.permits.conftest import Hand, introspect, manifest, post, redeem_bare, register

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 86_400


@pytest.fixture
def permit(hand, signed_off):
    return hand.fetch(signed_off()).json()


def own_key():
    return signing_keys.key_of(django_settings.PERMIT_KEYS[0])


def forged(permit, key=None, alg="EdDSA", headers=None, **changes):
    """The claims of a permit, changed and signed anew."""
    claims = jwt.decode(permit["permit"], options={"verify_signature": False}) | changes
    head = {"typ": "permit+jwt", "kid": permits.kid_of(own_key())} | (headers or {})
    return jwt.encode(claims, key, algorithm=alg, headers=head)


def verified(token, **how):
    return permits.verified(token, permits.public_keys(), audience="accounts.example", **how)


def test_another_agent_gets_no_permit_and_redeems_none(permit, signed_off, acme, stranger):
    row = Transaction.objects.get()
    colleague = Hand(Agent.objects.create(tenant=acme, slug="colleague", name="Colleague"))
    foreigner = Hand(stranger)

    for other in (colleague, foreigner):
        answers = [other.fetch(row), other.redeem(permit["jti"]), other.receipt(row)]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert Permit.objects.get().redeemed_at is None


def test_an_agent_of_the_same_name_in_another_tenant_is_another(permit, stranger):
    assert stranger.slug == "helpdesk"
    assert Hand(stranger).redeem(permit["jti"]).status_code == 404


def test_without_the_scope_to_propose_nothing_is_done(permit, helpdesk):
    reader = Hand(helpdesk, "read_all")
    row = Transaction.objects.get()

    answers = [reader.fetch(row), reader.redeem(permit["jti"]), reader.receipt(row)]

    assert [answer.status_code for answer in answers] == [403, 403, 403]


def test_a_token_that_is_wrong_is_not_made_good_by_the_permit(permit):
    client = Client(headers={"Authorization": "Bearer nonsense"})
    path = f"/permits/{permit['jti']}/redeem"

    assert post(client, path, {"permit": permit["permit"]}).status_code == 401
    assert post(Client(), path).status_code == 401
    assert Permit.objects.get().redeemed_at is None


def test_what_was_suspended_after_the_sign_off_is_not_redeemed(permit, helpdesk, hand, acme):
    Agent.objects.update(is_active=False)
    by_permit = redeem_bare(permit["permit"], permit["jti"])
    assert (by_permit.status_code, by_permit.json()["code"]) == (409, "not_possible")
    assert hand.redeem(permit["jti"]).status_code == 401
    assert introspect(permit["permit"]) == {"active": False}

    Agent.objects.update(is_active=True)
    Tenant.objects.filter(pk=acme.pk).update(tools=["other"])
    assert redeem_bare(permit["permit"], permit["jti"]).status_code == 409

    Tenant.objects.filter(pk=acme.pk).update(tools=["*"])
    tool = ("acme", Transaction.objects.get().tool)
    brakes.hold(*tool, "What its owner publishes has changed.", by=SWEEPER, via=Surface.SYSTEM)
    assert redeem_bare(permit["permit"], permit["jti"]).status_code == 409

    brakes.end_hold(*tool, by=SWEEPER, via=Surface.SYSTEM)
    assert redeem_bare(permit["permit"], permit["jti"]).status_code == 200


def test_a_row_that_was_changed_after_the_sign_off_is_not_redeemed(permit):
    forge("""UPDATE ledger_transaction SET arguments = '{"account": "8"}'""")

    refused = redeem_bare(permit["permit"], permit["jti"])

    assert refused.status_code == 409
    assert "changed after it was signed off" in refused.json()["detail"]


def test_while_a_late_receipt_of_the_operation_waits_nothing_is_redeemed(permit):
    other = propose("pay")
    row = Transaction.objects.get(tool="delete_account")
    Transaction.objects.filter(pk=other.pk).update(
        operation_key=row.operation_key, state="failed", late_receipt="del_0"
    )

    refused = redeem_bare(permit["permit"], permit["jti"])

    assert refused.status_code == 409
    assert "late receipt" in refused.json()["detail"]


# --- texts that are no permits ----------------------------------------------------------------


def test_what_others_signed_or_nobody_is_no_permit(permit):
    public = own_key().public_key().public_bytes_raw()
    cases = {
        "changed": permit["permit"][:-6] + "AAAAAA",
        "another key": forged(permit, Ed25519PrivateKey.generate()),
        "nobody signed it": forged(permit, None, "none"),
        "the public key as a secret": forged(permit, public * 2, "HS256"),
        "no text at all": "",
        "not a token": "a.b.c",
        "megabytes": "a" * 100_000,
        "for another service": forged(permit, own_key(), aud=["other.example"]),
        "of another type": forged(permit, own_key(), headers={"typ": "JWT"}),
        "of a key for something else": forged(
            permit, own_key(), headers={"kid": signing_keys.key_id(own_key())}
        ),
        "good for a day": forged(permit, own_key(), exp=int(time.time()) + DAY),
    }
    for what, token in cases.items():
        with pytest.raises(PermitRefused):
            verified(token)
        if what != "for another service":  # we do not know who asks
            assert introspect(token[:30_000]) == {"active": False}, what


def test_a_permit_does_not_open_another_one(hand, signed_off, permit):
    other = hand.fetch(signed_off("8")).json()

    refused = redeem_bare(permit["permit"], other["jti"])

    assert (refused.status_code, refused.json()["code"]) == (422, "permit_invalid")
    assert Permit.objects.filter(redeemed_at=None).count() == 2


def test_an_id_that_nobody_issued_is_not_found(hand, tool):
    unknown = "01a1fb79-5d02-7a10-8c44-1f0e9b7a2c31"

    assert hand.redeem(unknown).status_code == 404


def test_a_clock_that_is_ten_minutes_off_refuses_and_never_accepts(permit, monkeypatch):
    now = int(time.time())
    early = forged(permit, own_key(), iat=now + 600, exp=now + 900)
    late = forged(permit, own_key(), iat=now - 900, exp=now - 600)

    for token in (early, late):
        with pytest.raises(PermitRefused):
            verified(token, leeway_s=30)
    assert verified(forged(permit, own_key(), iat=now + 20, exp=now + 300), leeway_s=30)


# --- receipts of no use -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"receipt": ["del_7"]},
        {"receipt": "del_7"},
        {"receipt": {}},
        {"receipt": {"id": ""}},
        {"receipt": {"id": "  "}},
        {"receipt": {"id": 7}},
        {"receipt": {"id": None}},
        {"receipt": {"id": "x" * 501}},
        {"receipt": {"id": "del_7\u202e"}},
        {"receipt": {"id": "del_7", "more": {"a": "\u0000"}}},
        {"receipt": {"id": "del_7"}, "problem": "nothing-happened"},
        {"problem": "everything-happened"},
        {"receipt": {"id": "del_7"}, "operation_key": "delete_account:acme:8"},
    ],
)
def test_a_receipt_of_no_use_is_refused_and_changes_nothing(hand, signed_off, body):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])

    refused = hand.post(f"/transactions/{row.pk}/receipt", body)

    assert refused.status_code == 422
    row.refresh_from_db()
    assert (row.state, row.receipt, row.late_receipt) == ("committing", "", "")
    assert hand.receipt(row).status_code == 200


def test_a_receipt_of_a_megabyte_is_refused(hand, signed_off):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])

    refused = hand.receipt(row, more="x" * 1_000_000)

    assert refused.status_code == 413
    row.refresh_from_db()
    assert row.state == "committing"


def test_before_the_permit_is_redeemed_there_is_no_receipt(hand, signed_off):
    row = signed_off()
    hand.fetch(row)

    refused = hand.receipt(row)

    assert (refused.status_code, refused.json()["code"]) == (409, "not_possible")
    row.refresh_from_db()
    assert (row.state, row.late_receipt) == ("approved", "")


def test_a_second_receipt_after_the_first_waits_for_an_operator(hand, signed_off):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])
    hand.receipt(row)

    assert hand.receipt(row, "del_8").status_code == 202

    row.refresh_from_db()
    assert (row.state, row.receipt, row.late_receipt) == ("committed", "del_7", "del_8")
    event = Event.objects.filter(subject=row.pk).latest("seq")
    assert '"posted_by":"agent:acme/helpdesk"' in event.details


def test_the_same_receipt_with_other_content_is_refused(hand, signed_off):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])
    assert hand.receipt(row, note="first").status_code == 200

    assert hand.receipt(row, note="first").status_code == 200
    assert hand.receipt(row, note="second").status_code == 409

    row.refresh_from_db()
    assert row.result["note"] == "first"


# --- what has no permits ----------------------------------------------------------------------


def test_there_is_no_permit_before_the_sign_off_or_for_what_workers_carry_out(hand, approved):
    waiting = Transaction.objects.get(pk=hand.propose().json()["transaction_id"])
    assert hand.fetch(waiting).status_code == 409

    ours = approved()
    refused = hand.fetch(ours)
    assert refused.status_code in {404, 409}
    assert not Permit.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"audience": ""},
        {"audience": "two words"},
        {"acts_within_s": 0},
        {"acts_within_s": DAY + 1},
        {"redeem_within_s": 8 * DAY},
        {"limits": []},
        {"limits": {str(n): n for n in range(51)}},
        {"address": "https://accounts.example"},
        {"contract": {"retry_safe": True}},
        {"contract": {"plan_max_age_s": 60}},
        {"routes": ["plan"]},
    ],
)
def test_a_manifest_that_promises_too_much_is_refused(changes):
    with pytest.raises(ManifestRefused):
        read(manifest(**changes))


def test_its_manifest_keeps_its_hash():
    first = read(manifest())

    assert first.sha256 == read(manifest()).sha256 != read(manifest(audience="b.example")).sha256


def test_a_tool_that_is_withdrawn_goes_on_for_what_was_prepared(hand, signed_off, acme):
    from ledger.principals import Surface
    from tests.permits.conftest import OPERATOR

    row = signed_off()
    registrations.withdraw(acme, "delete_account", by=OPERATOR, via=Surface.COMMAND)

    assert hand.redeem(hand.fetch(row).json()["jti"]).status_code == 200


def test_the_version_that_was_signed_says_how_long_to_act(hand, signed_off, acme):
    row = signed_off()
    register(acme, audience="elsewhere.example")

    assert hand.fetch(row).json()["audience"] == "accounts.example"
