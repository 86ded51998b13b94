"""A code after the password, and what is copied, in a real browser."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from approvals.people.sign_in import second_steps

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user"),
]


def code_of(secret, steps=0):
    return second_steps.code_at(secret, int(time.time()) // 30 + steps)


def set_up_app(page, product):
    """From the account page to the recovery codes; returns the secret of the app and the codes."""
    page.goto(f"{product.url}/account/")
    page.get_by_role("link", name="Add an authenticator app").click()
    secret = page.locator(".secret code").inner_text().replace(" ", "")
    page.get_by_label("Code").fill(code_of(secret, -1))
    page.get_by_role("button", name="Add the app").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    codes = page.locator(".codes li").all_inner_texts()
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_role("button", name="Remove the app")).to_be_visible()
    return secret, codes


def sign_out(page):
    page.click("[data-menu] summary")
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page).to_have_url(re.compile("/sign-in/"))


def enter_password(page):
    page.fill("[name=username]", "alice")
    page.fill("[name=password]", "alice")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="One more step")).to_be_visible()


def enter_code(page, code):
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_a_person_adds_an_app_and_signs_in_with_its_code_after_a_wrong_one(desk_of, product):
    alice = desk_of("alice")
    secret, codes = set_up_app(alice, product)
    assert len(codes) == 10
    sign_out(alice)
    enter_password(alice)
    expect(alice.get_by_label("Code")).to_be_focused()

    enter_code(alice, "000000" if code_of(secret) != "000000" else "111111")

    expect(alice.get_by_role("alert")).to_be_visible()
    expect(alice.get_by_label("Code")).to_have_attribute("aria-describedby", "wrong")
    enter_code(alice, code_of(secret))
    expect(alice.locator("[data-live]")).to_have_text("Live")


def test_a_recovery_code_lets_in_once(desk_of, product):
    alice = desk_of("alice")
    _, codes = set_up_app(alice, product)
    sign_out(alice)
    enter_password(alice)
    enter_code(alice, codes[0])
    expect(alice.locator("[data-live]")).to_have_text("Live")
    alice.goto(f"{product.url}/account/")
    expect(alice.get_by_text("9 recovery codes are left")).to_be_visible()

    sign_out(alice)
    enter_password(alice)
    enter_code(alice, codes[0])

    expect(alice.get_by_role("alert")).to_be_visible()
    enter_code(alice, codes[1])
    expect(alice.locator("[data-live]")).to_have_text("Live")


def test_what_is_copied_is_announced_and_is_on_the_clipboard(desk_of, product):
    alice = desk_of("alice", permissions=["clipboard-read", "clipboard-write"])
    alice.goto(f"{product.url}/account/app/")
    secret = alice.locator(".secret code")

    secret.click()

    expect(alice.locator("[data-announce]")).to_have_text("Copied")
    expect(secret).to_have_class(re.compile("copied"))
    assert alice.evaluate("navigator.clipboard.readText()") == secret.inner_text()


def test_nothing_is_said_to_be_copied_where_the_browser_forbids_it(desk_of, product):
    alice = desk_of("alice")
    alice.goto(f"{product.url}/account/app/")
    alice.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden')); }"
    )

    alice.locator(".secret code").click()

    alice.keyboard.press("?")  # what the page does next, it does after it
    expect(alice.locator("dialog#keys")).to_be_visible()
    expect(alice.locator("[data-announce]")).to_be_empty()
