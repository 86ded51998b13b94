"""A person approves too fast, and can undo it for some seconds: on the item, or on the next one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ledger.models import Event, Tenant, Transaction
from ledger.states import State
from tests.accessibility.axe import violations
from tests.e2e.test_desk import row_of
from tests.processes import Product, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("alice_user"),
]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def seconds(acme: Tenant) -> Callable[[int], None]:
    """In which an approval can be undone."""

    def set_to(number: int) -> None:
        acme.undo_seconds = number
        acme.save(update_fields=["undo_seconds"])

    set_to(5)
    return set_to


def state_of(told: dict[str, Any]) -> str:
    return str(Transaction.objects.get(pk=told["transaction_id"]).state)


def approve(page: Page, told: dict[str, Any]) -> None:
    row_of(page, told).locator("a").click()
    expect(page.locator(f"[data-item='{told['transaction_id']}']")).to_be_visible()
    page.get_by_role("button", name="Approve €48.20").click()
    expect(page.locator("#item [data-undo]")).to_be_visible()


def test_what_was_undone_is_not_carried_out_and_can_be_approved_anew(
    desk_of, ask, product: Product, seconds
):
    told = ask()
    alice = desk_of("alice")
    approve(alice, told)
    expect(alice.locator("[data-announce]")).to_have_text(re.compile(r"Z undoes it for [45] sec"))
    expect(alice.locator("#item [data-undo-left]")).to_have_text(re.compile(r"^[1-5]$"))

    alice.keyboard.press("z")

    expect(alice.locator("#item")).to_contain_text(
        "You withdrew your approval. Nothing was carried out."
    )
    expect(alice.locator("[data-announce]")).to_have_text(re.compile("You withdrew your approval"))
    expect(alice.locator("#item h1")).to_be_focused()
    expect(row_of(alice, told)).not_to_have_class(re.compile("decided"))
    alice.wait_for_timeout(6_000)
    assert state_of(told) == State.PREPARED
    assert product.effects()["by_kind"] == {}

    seconds(0)
    alice.get_by_role("button", name="Approve €48.20").click()
    until(lambda: state_of(told) == State.COMMITTED)
    assert product.effects()["by_kind"] == {"refund": 1}


def test_it_begins_at_once_when_the_seconds_are_over(desk_of, ask, product: Product, seconds):
    told = ask()
    alice = desk_of("alice")
    approve(alice, told)

    until(lambda: state_of(told) == State.COMMITTED, 15)

    row = Transaction.objects.get()
    began = Event.objects.get(subject=row.pk, kind="claimed").at
    assert 5 <= (began - row.decided_at).total_seconds() < 7
    expect(alice.locator("#item .block.good code")).to_be_visible()
    expect(alice.locator("[data-announce]")).to_have_text(re.compile("Approved. Done, receipt re_"))
    expect(alice.locator("[data-undo]")).to_have_count(0)
    assert product.effects()["by_kind"] == {"refund": 1}


def test_the_last_approval_can_be_undone_while_the_next_item_is_read(
    desk_of, ask, product: Product, seconds
):
    seconds(15)
    told, other = ask(), ask()
    alice = desk_of("alice")
    approve(alice, told)
    alice.keyboard.press("Enter")
    expect(alice.locator(f'#item [data-item="{other["transaction_id"]}"]')).to_be_visible()

    note = alice.locator("[data-undo-note]")
    expect(note).to_contain_text("Approved: ")
    note.get_by_role("button", name="Undo").click()

    expect(alice.locator(f'#item [data-item="{told["transaction_id"]}"]')).to_be_visible()
    expect(alice.locator("#item")).to_contain_text("You withdrew your approval.")
    expect(alice).to_have_url(re.compile(told["transaction_id"]))
    expect(note).to_have_count(0)
    assert (state_of(told), state_of(other)) == (State.PREPARED, State.PREPARED)


def test_the_note_goes_when_the_seconds_are_over(desk_of, ask, product: Product, seconds):
    told, _other = ask(), ask()
    alice = desk_of("alice")
    approve(alice, told)
    alice.keyboard.press("Enter")

    expect(alice.locator("[data-undo-note]")).to_be_visible()
    expect(alice.locator("[data-undo-note]")).to_have_count(0)
    until(lambda: state_of(told) == State.COMMITTED)


def test_on_a_phone_the_button_is_at_the_thumb(desk_of, ask, product: Product, seconds):
    seconds(15)
    told = ask()
    alice = desk_of("alice", **PHONE)
    approve(alice, told)

    box = alice.locator("#item [data-undo]").bounding_box()
    assert box["height"] >= 44
    assert 600 < box["y"] < 844
    alice.locator("#item [data-undo]").tap()

    expect(alice.locator("#item")).to_contain_text("You withdrew your approval.")
    assert state_of(told) == State.PREPARED


def test_axe_finds_nothing_on_the_item_and_beside_the_next_one(desk_of, ask, seconds):
    seconds(60)
    told, _other = ask(), ask()
    alice = desk_of("alice")
    approve(alice, told)
    assert violations(alice) == []

    alice.locator("[data-next]").click()  # axe leaves the focus somewhere
    expect(alice.locator("[data-undo-note]")).to_be_visible()
    assert violations(alice) == []
