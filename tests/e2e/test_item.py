"""The open item and its dialogs in a browser: what is shown, typed, refused and kept."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from ledger.models import Grant, Transaction
from tests.e2e.test_desk import row_of
from tests.processes import until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user"),
]

SPELLINGS = ["125000", "125,000", "125 000,00", "€125.000,00", "eur 125'000.00"]
OTHERS = ["12500", "125.00", "$125,000", "", "1250000", "-125000"]
AMOUNT = {"amount": "125000", "precision": 2, "signs": ["EUR", "€"]}


def open_at(page: Page, told: dict[str, str]) -> None:
    origin = "/".join(page.url.split("/")[:3])
    page.goto(f"{origin}/transactions/{told['transaction_id']}/")
    expect(page.locator("#item h1")).to_be_visible()


def is_confirmed(page: Page, typed: str, spellings: dict[str, object]) -> bool:
    script = """async ([typed, spellings]) => {
        const source = document.querySelector('script[src*="/js/dialogs"]').src;
        return (await import(source)).isConfirmed(typed, spellings);
    }"""
    return bool(page.evaluate(script, [typed, spellings]))


def test_the_dialog_takes_the_spellings_of_an_amount_that_the_server_takes(desk_of, ask):
    from decimal import Decimal

    from approvals.desk.strength.confirmations import is_amount

    alice = desk_of("alice")

    for typed in (*SPELLINGS, *OTHERS):
        at_the_server = is_amount(typed, Decimal("125000"), "EUR")
        assert is_confirmed(alice, typed, AMOUNT) is at_the_server is (typed in SPELLINGS), typed


@pytest.mark.parametrize("typed", [" PROD-import-01 ", "i-4a1b"])
def test_what_cannot_be_undone_is_named_and_the_button_is_dead_until_it_is(desk_of, ask, typed):
    told = ask("terminate_cloud_instance", arguments={"instance_id": "i-4a1b", "reason": "idle"})
    alice = desk_of("alice")
    open_at(alice, told)

    alice.get_by_role("button", name="Approve…").click()
    dialog, button = alice.get_by_role("dialog"), alice.get_by_role("button", name="as the first")
    expect(dialog).to_contain_text("It is a production instance.")
    expect(dialog).to_contain_text("Nothing happens until Bob Tanaka approves.")
    expect(button).to_be_disabled()
    alice.get_by_label(re.compile(r"^\s*Type")).fill("prod-import")
    expect(button).to_be_disabled()
    alice.get_by_label(re.compile(r"^\s*Type")).fill(typed)
    button.click()

    expect(alice.locator("#item .signers .signed")).to_contain_text("You")


def test_a_spelling_that_the_server_refuses_keeps_the_dialog_and_the_text(desk_of, ask):
    told = ask("terminate_cloud_instance", arguments={"instance_id": "i-4a1b", "reason": "idle"})
    alice = desk_of("alice")
    open_at(alice, told)
    alice.get_by_role("button", name="Approve…").click()
    field = alice.get_by_label(re.compile(r"^\s*Type"))
    field.fill("something else")

    # As if the script had taken it.
    alice.evaluate("htmx.trigger('#item dialog[open] form', 'submit')")

    expect(alice.locator("dialog[open] [data-fault]")).to_contain_text("It cannot be undone")
    expect(field).to_have_value("something else")
    assert Transaction.objects.get().state == "prepared"


def test_a_rejection_without_a_reason_is_told_under_the_field_and_a_chip_fills_it(desk_of, ask):
    told = ask()
    alice = desk_of("alice")
    open_at(alice, told)
    alice.get_by_role("button", name="Reject…").click()
    expect(alice.get_by_label("Why?")).to_be_focused()

    alice.get_by_role("dialog").get_by_role("button", name="Reject").click()
    expect(alice.locator("dialog[open] [data-fault]")).to_contain_text("Say why")
    alice.get_by_role("button", name="Wrong amount").click()
    expect(alice.locator("dialog[open] [data-fault]")).to_be_hidden()
    alice.get_by_role("dialog").get_by_role("button", name="Reject").click()

    expect(alice.locator("#item .state")).to_contain_text("Rejected by you")
    assert Transaction.objects.get().ending_reason == "Wrong amount"


def test_when_the_time_is_up_an_open_dialog_says_so_and_keeps_what_was_typed(desk_of, ask):
    alice = desk_of("alice")
    told = ask(ttl_s=7)
    open_at(alice, told)
    alice.get_by_role("button", name="Reject…").click()
    alice.get_by_label("Why?").fill("Long thoughts.")

    # Told by the page's own clock, or by the sweeper where that one is first.
    expect(alice.locator("dialog[open] [data-fault]")).to_contain_text(
        re.compile("Its time is up|nobody decided in time"), timeout=15_000
    )
    expect(alice.get_by_label("Why?")).to_have_value("Long thoughts.")
    expect(alice.get_by_role("button", name="Copy what you typed")).to_be_visible()
    until(lambda: Transaction.objects.get().ending == "expired")
    alice.keyboard.press("Escape")

    expect(alice.locator("#item .state")).to_contain_text("Expired")


@pytest.mark.parametrize("width", [320, 1360])
def test_a_long_text_is_not_approved_before_all_of_it_is_shown(desk_of, ask, width):
    told = ask(reason="Why this is right. " * 90 + "In truth it goes to Mallory.")
    alice = desk_of("alice", viewport={"width": width, "height": 700})
    open_at(alice, told)

    expect(alice.get_by_role("button", name="Approve")).to_have_count(0)
    alice.get_by_role("link", name=re.compile(r"Show all \(1,\d{3} characters\)")).click()
    expect(alice.get_by_text("In truth it goes to Mallory.")).to_be_visible()
    assert alice.evaluate("document.documentElement.scrollWidth") <= width
    alice.get_by_role("button", name="Approve €48.20").click()

    until(lambda: Transaction.objects.get().state == "committed")


def test_a_text_from_right_to_left_keeps_its_direction(desk_of, ask):
    told = ask(reason="الفاتورة مستحقة اليوم (invoice 8841) قبل الساعة 17:00.")
    alice = desk_of("alice")
    open_at(alice, told)

    quote = alice.locator(".says blockquote")
    assert quote.evaluate("node => getComputedStyle(node).direction") == "rtl"
    assert alice.locator("#item h1").evaluate("node => getComputedStyle(node).direction") == "ltr"


def test_who_wanted_the_same_and_was_slower_is_told_in_grey(desk_of, ask):
    told = ask()
    alice, bob = desk_of("alice"), desk_of("bob")
    open_at(bob, told)
    digest = bob.locator("#item .decide form [name=digest]").input_value()
    row_of(alice, told).locator("a").click()
    alice.get_by_role("button", name="Approve €48.20").click()
    until(lambda: Transaction.objects.get().state == "committed")

    bob.evaluate(
        "([address, digest]) => htmx.ajax('POST', address, {target: '#item', values: {digest}})",
        [f"/transactions/{told['transaction_id']}/approve", digest],
    )

    alert = bob.locator("#item [role=alert]")
    expect(alert).to_contain_text("Alice Moreau approved it")
    expect(alert).not_to_have_class(re.compile("bad"))


def test_a_person_approves_and_allows_what_is_like_it(desk_of, ask):
    told = ask()
    alice = desk_of("alice")
    open_at(alice, told)

    alice.get_by_role("link", name="Approve and allow…").click()
    words = alice.locator(".signs .what")
    expect(words).to_contain_text("up to 10 times")
    alice.get_by_label("How many times").fill("3")
    expect(words).to_contain_text("up to 3 times")
    alice.get_by_role("button", name="Approve and allow").click()

    expect(alice.get_by_role("status").filter(has_text="up to 3 times")).to_be_visible()
    expect(alice.locator("#item .state")).to_contain_text("Approved by you")
    row = Transaction.objects.get(pk=told["transaction_id"])
    assert Grant.objects.get().transaction_id == row.pk
