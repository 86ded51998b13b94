"""Passkeys in a real browser, with an authenticator that Chromium plays."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from approvals.models import LinkPurpose
from approvals.people.sign_in import links

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user"),
]
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def with_authenticator(page, **changed):
    """The tab has an authenticator from now on."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {**AUTHENTICATOR, **changed}
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session


def sign_out(page):
    page.click("[data-menu] summary")
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page).to_have_url(re.compile("/sign-in/"))


def test_a_person_adds_a_passkey_keeps_the_codes_and_signs_in_with_it(desk_of, product):
    alice = desk_of("alice")
    with_authenticator(alice)
    alice.goto(f"{product.url}/account/")
    alice.get_by_role("button", name="Add a passkey").click()
    expect(alice.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    expect(alice.locator(".codes li")).to_have_count(10)
    alice.get_by_role("link", name="I have kept them").click()
    expect(alice.locator(".things b").get_by_text("This device")).to_be_visible()

    sign_out(alice)
    alice.get_by_role("button", name="Use a passkey").click()

    expect(alice.locator("[data-live]")).to_have_text("Live")
    sign_out(alice)
    alice.fill("[name=username]", "alice")
    alice.fill("[name=password]", "alice")
    alice.get_by_role("button", name="Sign in", exact=True).click()
    expect(alice.get_by_role("heading", name="One more step")).to_be_visible()
    alice.get_by_role("button", name="Use a passkey").click()
    expect(alice.locator("[data-live]")).to_have_text("Live")


def test_a_passkey_that_verifies_nobody_does_not_count(desk_of, product):
    alice = desk_of("alice")
    with_authenticator(alice, isUserVerified=False)
    alice.goto(f"{product.url}/account/")

    alice.get_by_role("button", name="Add a passkey").click()

    expect(alice.locator("[data-problem]")).to_have_text("No passkey was made. Try again.")


def test_an_invitation_is_taken_with_a_passkey(browser, product, bob_user):
    bob_user.set_unusable_password()
    bob_user.save()
    path = links.new_link(LinkPurpose.INVITE, bob_user).partition("localhost:8000")[2]
    page = browser.new_context().new_page()
    with_authenticator(page)
    page.goto(f"{product.url}{path}")

    page.get_by_role("button", name="Make a passkey").click()

    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_role("heading", name="Your account")).to_be_visible()
    page.context.close()
