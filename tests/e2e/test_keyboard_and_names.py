"""The main flows with the keyboard alone, and the names by which a screen reader knows them."""

from __future__ import annotations

import re
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Page, expect

from a2a.models import Skill, Task
from a2a.tasks import questions
from ledger.models import Agent, Transaction
from tests.processes import Product, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user"),
]
REFUND = {"payment_id": "pay_1042", "amount": "48.20", "reason": "broken"}
MOST_TABS = 60


@pytest.fixture
def ask(product: Product, token: str):
    def ask(tool="refund_customer", **arguments):
        answer = httpx.post(
            f"{product.url}/api/v1/transactions",
            json={"tool": tool, "arguments": arguments or REFUND, "reason": "It arrived broken."},
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex},
            timeout=30,
        )
        assert answer.status_code == 201, answer.text
        return answer.json()["transaction_id"]

    return ask


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on what has this name, as a person does who sees no pointer."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if re.search(name, focused(page)):
            return
    pytest.fail(
        f"{name!r} was not reached within {MOST_TABS} tabs; the focus is on {focused(page)}"
    )


def focused(page: Page) -> str:
    """The name of what has the focus: its label, or its text."""
    return page.evaluate(
        """() => {
          const one = document.activeElement;
          const label = one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent;
          return (label || one.value || one.textContent).replace(/\\s+/g, " ").trim();
        }"""
    )


def opened(page: Page, item_id: object) -> None:
    """The first row, opened by its key."""
    expect(page.locator("#list .row")).to_have_count(1)
    page.keyboard.press("j")
    expect(page.locator(f"[data-item='{item_id}']")).to_be_visible()


def test_a_refund_is_approved(desk_of, ask):
    refund, alice = ask(), desk_of("alice")
    opened(alice, refund)

    item = alice.locator("#item")
    expect(item.get_by_role("heading", level=1)).to_have_text(re.compile("Refund €48.20"))
    expect(item.get_by_role("button", name="Approve €48.20")).to_be_visible()
    tab_to(alice, "^Approve €48.20$")
    alice.keyboard.press("Enter")

    until(lambda: Transaction.objects.get(pk=refund).state == "committed")
    expect(alice.locator("[data-announce]")).to_have_text(re.compile("Approved|Done"))


def test_a_refund_is_rejected_with_a_reason(desk_of, ask):
    refund, alice = ask(), desk_of("alice")
    opened(alice, refund)

    tab_to(alice, "^Reject…$")
    alice.keyboard.press("Enter")
    dialog = alice.get_by_role("dialog")
    expect(dialog).to_have_accessible_name(re.compile(r"\w"))
    expect(dialog.get_by_role("textbox", name=re.compile("Why"))).to_be_focused()
    alice.keyboard.type("It was refunded before.")
    tab_to(alice, "^Reject$")
    alice.keyboard.press("Enter")

    until(lambda: Transaction.objects.get(pk=refund).ending == "rejected")
    assert Transaction.objects.get(pk=refund).ending_reason == "It was refunded before."


def test_what_cannot_be_undone_is_typed(desk_of, ask):
    end = ask("terminate_cloud_instance", instance_id="i-4a1b", reason="idle")
    alice = desk_of("alice")
    opened(alice, end)

    alice.keyboard.press("a")
    expect(alice.get_by_role("dialog")).to_have_accessible_name(re.compile(r"\w"))
    field = alice.get_by_role("textbox", name=re.compile("Type"))
    expect(field).to_be_focused()
    alice.keyboard.type("prod-import-01")
    alice.keyboard.press("Enter")

    until(lambda: Transaction.objects.get(pk=end).decisions.count() == 1)


def test_a_question_is_answered(desk_of, product, a_claimed_task, worker: Agent):
    task: Task = a_claimed_task()
    question = questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="Which date is right?",
        form={"type": "string", "enum": ["3 May", "5 May"]},
        via="api",
    )
    alice = desk_of("alice")
    opened(alice, task.pk)

    choices = alice.get_by_role("radio")
    expect(choices).to_have_count(2)
    alice.keyboard.press("a")
    expect(choices.first).to_be_focused()
    alice.keyboard.press("ArrowDown")
    tab_to(alice, "^Answer$")
    alice.keyboard.press("Enter")

    until(lambda: questions_state(question) == "answered")


def questions_state(question):
    question.refresh_from_db()
    return question.state


def test_work_is_given(desk_of, product, consolidate: Skill):
    alice = desk_of("alice")
    alice.keyboard.press("g")
    alice.keyboard.press("w")
    alice.wait_for_url("**/tasks/")

    tab_to(alice, "^Give work")
    alice.keyboard.press("Enter")
    alice.wait_for_url("**/tasks/new/**")
    snapshot = alice.get_by_role("main").aria_snapshot()
    assert "heading" in snapshot
    assert consolidate.name in snapshot
