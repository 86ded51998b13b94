"""Ways to end that something is signed that were noticed by nobody, or ended a page, once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fido2.utils import websafe_encode

from approvals.desk.strength import signing
from approvals.people import end_key, principal_of
from approvals.people.sign_in import passkeys_of
from approvals.people.sign_in.passkeys import answered_with
from ledger.events import ChangeKind, record_change
from ledger.models import Event, Tenant
from ledger.proof.log import checkpoints
from ledger.sign_off import passkeys, rules
from ledger.sign_off.rules import sets
from ledger.sign_off.rules.activations import statement_of_activation
from tests.forgery import rewrite
from tests.rules.test_proof import faults_of_both
from tests.signing.conftest import SIGNED
from tests.signing.test_activations import (
    ALSO_BY_TWO,
    BY_CLICK,
    activation,
    confirm,
    in_force,
    key,
    sign,
    waiting,
)

__all__ = ["key", "waiting"]
pytestmark = pytest.mark.django_db


def appended(by: Any, tenant: str = "acme", **says: Any) -> str:
    """An activation of rules of acme, as the application's role can append it."""
    said = {"loosens": ["-1"], "asked_by": "user:1", "asked_by_name": "Olga", **says}
    event = record_change(
        "rules:acme", ChangeKind.RULES_ACTIVATED, tenant=tenant, by=by, via="web", details=said
    )
    return f"event {event.pk}"


def is_noticed(named: str) -> bool:
    checkpoints.make()
    for faults in faults_of_both():
        assert any(named in fault for fault in faults), faults
    return True


def signed_by(key: Any, tenant: str, **says: Any) -> dict[str, Any]:
    """The details of an activation that this key has signed, which is not stored."""
    says = {"number": 2, "in_place_of": 1, "rules": [BY_CLICK], **says}
    statement = statement_of_activation(tenant, says, "a nonce")
    options = {"publicKey": {"challenge": websafe_encode(passkeys.challenge_of(statement))}}
    return {**says, "assertion": {**answered_with(key.use(options)), "nonce": "a nonce"}}


@pytest.fixture
def never_counting(key) -> Any:
    """A passkey without a counter, as those that are kept in a cloud."""
    key.counter = -1
    return key


@pytest.mark.parametrize("restored", [[], [1]], ids=["in place of others", "after older rules"])
def test_what_was_signed_and_not_used_ends_signing_at_no_later_time(
    restored, waiting, never_counting, as_otto, otto, activated
):
    options = confirm(as_otto, waiting, sign="1").json()["approve"]
    unused = {**answered_with(never_counting.use(options)), "nonce": options["nonce"]}
    never_counting.counter = -1
    sign(as_otto, waiting, never_counting)
    activated(SIGNED)
    checkpoints.make()
    assert faults_of_both() == ([], [])

    older = [appended(otto, number=n, in_place_of=3, rules=[SIGNED]) for n in restored]
    late = appended(otto, number=2, in_place_of=1, rules=was_activated(), assertion=unused)

    assert is_noticed((older or [late])[0])


def was_activated() -> Any:
    """The rules of the second set."""
    second = Event.objects.filter(kind=ChangeKind.RULES_ACTIVATED).order_by("id")[1]
    return json.loads(second.details)["rules"]


def test_what_an_operator_signed_for_another_tenant_ends_no_signing_here(activated, key, otto):
    activated(SIGNED)

    named = appended(otto, "globex", **signed_by(key, "globex"))

    assert is_noticed(named)
    with pytest.raises(rules.RulesRefused):
        sets.rules_of("acme", 2)


def test_a_manager_who_signs_rules_is_no_operator(activated, has_key, alice_user):
    activated(SIGNED)

    named = appended(principal_of(alice_user), **signed_by(has_key(alice_user), "acme"))

    assert is_noticed(named)


def test_a_key_that_has_ended_signs_no_rules(activated, key, otto, otto_user):
    activated(SIGNED)
    end_key(otto_user, passkeys_of(otto_user).get().pk, by=otto, via="web")

    assert is_noticed(appended(otto, **signed_by(key, "acme")))


def test_what_was_signed_too_long_ago_does_not_count(waiting, key, as_otto, monkeypatch):
    monkeypatch.setattr(signing, "VALID_S", -1)

    answer = sign(as_otto, waiting, key)

    assert in_force()[0]["then"]["strength"] == "passkey"
    assert "signed too long ago" in as_otto.get(answer.url).content.decode()


def test_rules_that_cannot_be_read_end_no_verifier(waiting, key, as_otto):
    sign(as_otto, waiting, key)

    assert is_noticed(rewrite(activation(), rules=["ask"]))


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"id":1}',
        "[" * 5_000,
        '{"id":"AA","rawId":"AA","type":"public-key","response":'
        '{"clientDataJSON":"e30","authenticatorData":"AAAA","signature":"AAAA"}}',
    ],
)
def test_rubbish_in_place_of_a_signature_is_refused_in_words(credential, waiting, key, as_otto):
    nonce = confirm(as_otto, waiting, sign="1").json()["approve"]["nonce"]

    for said in (nonce, "rubbish"):
        answer = confirm(as_otto, waiting, credential=credential, nonce=said)
        assert (answer.status_code, answer.url) == (302, f"/changes/{waiting.pk}/")

    assert in_force()[0]["then"]["strength"] == "passkey"


def test_nothing_is_signed_where_a_change_is_not_signed(activated, olga, key, as_otto):
    activated(ALSO_BY_TWO)
    draft = rules.edit("acme", [BY_CLICK], seen="", by=olga)
    change = rules.activate("acme", seen=draft.sha256, by=olga, via="web")

    answer = confirm(as_otto, change, sign="1")

    assert (answer.status_code, [*answer.json()]) == (404, ["problem"])


def test_nothing_is_signed_for_a_change_that_waits_no_more(waiting, key, as_otto):
    as_otto.post(f"/changes/{waiting.pk}/decline")

    assert confirm(as_otto, waiting, sign="1").status_code == 404


def test_a_signature_for_another_change_does_not_count(waiting, key, as_otto, olga):
    options = confirm(as_otto, waiting, sign="1").json()["approve"]
    draft = rules.edit("acme", [BY_CLICK, ALSO_BY_TWO], seen=waiting_draft(), by=olga)
    later = rules.activate("acme", seen=draft.sha256, by=olga, via="web")
    assert later is not None

    for change in (waiting, later):
        confirm(as_otto, change, credential=key.use(options), nonce=options["nonce"])

    assert "or something else was" in as_otto.get(f"/changes/{later.pk}/").content.decode()
    assert in_force()[0]["then"]["strength"] == "passkey"


def waiting_draft() -> str:
    draft = rules.in_work("acme")
    assert draft is not None
    return str(draft.sha256)


def test_two_tabs_confirm_once(waiting, key, as_otto):
    options = [confirm(as_otto, waiting, sign="1").json()["approve"] for _ in range(2)]

    answers = [
        confirm(as_otto, waiting, credential=key.use(each), nonce=each["nonce"]).url
        for each in options
    ]

    assert answers == ["/changes/", f"/changes/{waiting.pk}/"]
    assert "settled it already" in as_otto.get(answers[1]).content.decode()
    assert Tenant.objects.get(pk="acme").rule_set == 2
