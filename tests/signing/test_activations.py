"""Rules that end that something is signed are signed themselves, and both verifiers prove it."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from ledger.events import ChangeKind
from ledger.models import ChangeRequest, Event
from ledger.proof.log import checkpoints
from ledger.sign_off import rules
from ledger.sign_off.rules import sets
from tests.forgery import rewrite
from tests.rules.test_proof import faults_of_both
from tests.signing.conftest import SIGNED

pytestmark = pytest.mark.django_db
BY_CLICK = {"when": {"tool": "refund"}, "then": {"verdict": "ask"}}
ALSO_BY_TWO = {"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}}


@pytest.fixture
def waiting(activated, olga) -> ChangeRequest:
    """Olga asks that refunds are approved with a click again."""
    activated(SIGNED)
    draft = sets.edit("acme", [BY_CLICK], seen="", by=olga)
    asked = rules.activate("acme", seen=draft.sha256, by=olga, via="web")
    assert asked is not None
    return asked


@pytest.fixture
def key(has_key, otto_user) -> Any:
    return has_key(otto_user)


def confirm(client: Any, change: ChangeRequest, **said: str) -> Any:
    return client.post(f"/changes/{change.pk}/confirm", {"seen": change.sha256, **said})


def sign(client: Any, change: ChangeRequest, key: Any, **how: Any) -> Any:
    options = confirm(client, change, sign="1").json()["approve"]
    return confirm(client, change, credential=key.use(options, **how), nonce=options["nonce"])


def activation() -> Event:
    return Event.objects.filter(kind=ChangeKind.RULES_ACTIVATED).latest("id")


def in_force() -> Any:
    active = rules.active("acme")
    return active.rules if active else []


def test_the_second_operator_signs_that_nothing_is_signed_any_more(waiting, key, as_otto):
    page = as_otto.get(f"/changes/{waiting.pk}/").content.decode()
    assert "it takes one to confirm it" in page
    assert "data-sign-form" in page

    sign(as_otto, waiting, key)

    assert in_force()[0]["then"].get("strength") is None
    assert "signed with a passkey" in as_otto.get("/changes/").content.decode()
    checkpoints.make()
    assert faults_of_both() == ([], [])


def test_without_a_signature_the_rules_stay(waiting, key, as_otto):
    answer = confirm(as_otto, waiting)

    assert in_force()[0]["then"]["strength"] == "passkey"
    assert "signed too long ago" in as_otto.get(answer.url).content.decode()


def test_whoever_has_no_key_reads_what_it_takes(waiting, as_otto):
    page = as_otto.get(f"/changes/{waiting.pk}/").content.decode()

    assert "Add one; two operators let it sign." in page
    assert "data-sign-form" not in page
    assert confirm(as_otto, waiting, sign="1").status_code == 403


def test_a_signature_at_another_address_does_not_count(waiting, key, as_otto):
    answer = sign(as_otto, waiting, key, origin="https://elsewhere.example")

    assert in_force()[0]["then"]["strength"] == "passkey"
    assert "another address" in as_otto.get(answer.url).content.decode()


def test_a_command_on_the_server_does_not_end_signing(activated, tmp_path):
    activated(SIGNED)
    file = tmp_path / "rules.yaml"
    file.write_text("rules: [{when: {tool: refund}, then: ask}]")

    with pytest.raises(CommandError, match="two operators activate them at the desk"):
        call_command("rules", "apply", str(file), tenant="acme", stdout=StringIO())

    assert in_force()[0]["then"]["strength"] == "passkey"


def test_whoever_activates_reads_how_many_could_sign(
    as_olga, olga, acme, alice_user, bob_user, has_key
):
    has_key(alice_user)
    sets.edit("acme", [SIGNED], seen="", by=olga)

    assert (
        "1 of 2 managers have a passkey that signs."
        in as_olga.get("/settings/rules/acme/").content.decode()
    )

    has_key(bob_user)
    assert "passkey that signs" not in as_olga.get("/settings/rules/acme/").content.decode()


def test_what_tightens_holds_at_once_with_no_signature(activated):
    activated(SIGNED)
    activated(SIGNED, ALSO_BY_TWO)

    checkpoints.make()
    assert faults_of_both() == ([], [])


@pytest.mark.parametrize(
    "forged",
    [
        {"assertion": None},
        {"rules": [BY_CLICK, {"when": {"tool": "launch"}, "then": {"verdict": "pass"}}]},
        {"in_place_of": 7},
    ],
    ids=["no signature", "other rules", "in place of others"],
)
def test_both_verifiers_notice_an_activation_that_nobody_signed_so(waiting, key, as_otto, forged):
    sign(as_otto, waiting, key)
    named = rewrite(activation(), **forged)
    checkpoints.make()

    ours, theirs = faults_of_both()
    assert any(named in fault for fault in ours), ours
    assert any(named in fault for fault in theirs), theirs


def test_rules_that_follow_an_unsigned_set_are_compared_with_those_before_it(
    waiting, key, as_otto, activated
):
    sign(as_otto, waiting, key)
    activated(BY_CLICK, ALSO_BY_TWO)
    first, later = Event.objects.filter(kind=ChangeKind.RULES_ACTIVATED).order_by("id")[1:]
    rewrite(first, assertion=None)
    checkpoints.make()

    for faults in faults_of_both():
        for event in (first, later):
            assert any(f"event {event.pk}" in fault for fault in faults), faults


def test_a_change_of_rules_that_cannot_be_read_is_shown_and_not_confirmed(waiting, key, as_otto):
    rewrite(activation(), rules=[{"when": {"colour": "red"}, "then": "pass"}])
    sets.rules_of.cache_clear()

    page = as_otto.get(f"/changes/{waiting.pk}/").content.decode()

    assert "colour" in page
    assert "data-sign-form" not in page
    assert confirm(as_otto, waiting).status_code == 302
    assert in_force()[0]["then"]["strength"] == "passkey"
