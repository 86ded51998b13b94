"""Change, then approve, by keyboard alone; a colleague sees it at once and loses nothing typed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from ledger.models import Transaction
from ledger.states import State
from tests.accessibility.axe import violations
from tests.e2e.test_item import open_at
from tests.processes import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("alice_user", "bob_user"),
]


def test_a_wrong_amount_is_corrected_and_approved_by_keyboard(desk_of, ask):
    arguments = {"payment_id": "pay_1042", "amount": "48.20", "reason": "broken"}
    told = ask(arguments=arguments)
    alice, bob = desk_of("alice"), desk_of("bob")
    open_at(bob, told)
    bob.get_by_text("Ask the agent, or leave a note").click()
    bob.get_by_label("Text").fill("I am writing")
    open_at(alice, told)

    alice.keyboard.press("e")
    expect(alice.get_by_label("Amount")).to_be_focused()
    assert violations(alice) == []
    alice.keyboard.type("12,30")
    alice.keyboard.press("Enter")
    expect(alice.get_by_text("Use a point, not a comma.")).to_be_visible()
    alice.keyboard.type("12.30")
    alice.keyboard.press("Enter")
    expect(alice.locator(".changed-since")).to_contain_text("€48.20")
    expect(bob.locator(".changed-since")).to_contain_text("Alice Moreau changed it")
    expect(bob.get_by_label("Text")).to_have_value("I am writing")
    assert violations(bob) == []
    alice.keyboard.press("a")
    alice.keyboard.press("Enter")

    until(lambda: Transaction.objects.get().state == State.COMMITTED)
    assert f"{Transaction.objects.get().amount:.2f}" == "12.30"
    expect(alice.locator(".changed-since")).to_contain_text("What was done")
