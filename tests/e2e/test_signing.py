"""Signing decisions with a passkey in a real browser, with an authenticator that Chromium plays."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from ledger.models import Event, Tenant, Transaction
from ledger.sign_off import rules
from tests.e2e.test_item import open_at
from tests.e2e.test_passkeys import with_authenticator
from tests.processes import until
from tests.signing.conftest import activated, let_sign, olga, otto

__all__ = ["activated", "olga", "otto"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user"),
]
BUTTON = "Sign with your passkey"
CANCELLED = "() => { navigator.credentials.get = () => Promise.reject(new Error('cancelled')); }"
TERMINATE = {"instance_id": "i-4a1b", "reason": "idle"}


def signed(tool):
    return {"when": {"tool": tool}, "then": {"verdict": "ask", "strength": "passkey"}}


@pytest.fixture
def alice_signs(desk_of, product, settings, alice_user, olga_user, otto_user):
    """Alice's page, and the session of her authenticator, whose passkey two operators let sign."""
    settings.PUBLIC_URL = product.url
    Tenant.objects.update(signing_key_hours=0)
    page = desk_of("alice")
    session = with_authenticator(page)
    page.goto(f"{product.url}/account/")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    let_sign(alice_user, None, olga_user, otto_user)
    return page, session


def test_a_person_signs_a_refund_and_the_worker_commits_it(alice_signs, activated, ask):
    activated(signed("refund_customer"))
    alice, _session = alice_signs
    told = ask()
    open_at(alice, told)

    alice.keyboard.press("a")
    expect(alice.get_by_role("button", name=BUTTON)).to_be_focused()
    alice.keyboard.press("Enter")

    expect(alice.locator("#item .signers .signed")).to_contain_text("with a passkey")
    until(lambda: Transaction.objects.get().state == "committed")
    [vote] = Event.objects.filter(details__contains='"assertion"')
    assert (str(vote.subject), vote.via) == (told["transaction_id"], "web")


def test_what_cannot_be_undone_is_signed_with_a_touch_in_place_of_typing(alice_signs, ask):
    alice, _session = alice_signs
    open_at(alice, ask("terminate_cloud_instance", arguments=TERMINATE))

    alice.keyboard.press("a")
    expect(alice.get_by_role("button", name="as the first")).to_be_disabled()
    alice.get_by_role("button", name=f"{BUTTON} instead").click()

    expect(alice.locator("#item .signers .signed")).to_contain_text("with a passkey")


def test_a_ceremony_that_fails_says_so_in_place_and_can_be_repeated(alice_signs, activated, ask):
    activated(signed("terminate_cloud_instance"))
    alice, _session = alice_signs
    open_at(alice, ask("terminate_cloud_instance", arguments=TERMINATE))
    alice.evaluate(CANCELLED)
    alice.get_by_role("button", name=BUTTON).click()
    dialog = alice.get_by_role("dialog")
    expect(dialog.get_by_label(re.compile("Type"))).to_have_count(0)

    dialog.get_by_role("button", name=BUTTON).click()

    expect(dialog.locator("[data-fault]")).to_have_text(
        "Your passkey did not sign. Nothing was decided; try again."
    )
    assert Event.objects.filter(details__contains='"assertion"').count() == 0
    alice.evaluate("delete navigator.credentials.get")
    dialog.get_by_role("button", name=BUTTON).click()
    expect(alice.locator("#item .signers .signed")).to_contain_text("with a passkey")


def test_a_browser_without_passkeys_says_so(alice_signs, activated, ask):
    activated(signed("refund_customer"))
    alice, _session = alice_signs
    open_at(alice, ask())
    alice.evaluate("delete window.PublicKeyCredential")

    alice.get_by_role("button", name=BUTTON).click()

    expect(alice.locator(".decide [data-fault]")).to_contain_text("cannot use passkeys")
    assert Transaction.objects.get().state == "prepared"


def test_an_operator_signs_rules_that_end_signing(
    desk_of, product, settings, activated, olga, olga_user, otto_user, tmp_path
):
    settings.PUBLIC_URL = product.url
    Tenant.objects.update(signing_key_hours=0)
    activated(signed("refund_customer"))
    page = desk_of("otto")
    with_authenticator(page)
    page.goto(f"{product.url}/account/")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    let_sign(otto_user, None, otto_user, olga_user)
    draft = rules.edit("acme", [], seen="", by=olga)
    change = rules.activate("acme", seen=draft.sha256, by=olga, via="web")
    page.goto(f"{product.url}/changes/{change.pk}/")

    page.get_by_role("button", name=BUTTON).click()

    expect(page.get_by_text("Confirmed: it counts from now on.")).to_be_visible()
    assert rules.active("acme").rules == []
