"""Many at once: each shown in full, one verdict and one result each; a rule can forbid it."""

from __future__ import annotations

import re

import pytest

from ledger.models import Decision, Event, Transaction
from ledger.proof.audit import verification
from ledger.states import State
from tests.conftest import propose

pytestmark = pytest.mark.django_db
PAGE = "/together/?tool=refund"


def refunds(number: int) -> list[Transaction]:
    return [propose("refund", order=f"o{n}", amount="12.00") for n in range(number)]


def form_of(page: str) -> dict[str, str]:
    """The hidden fields of the page."""
    return dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page))


def decide(client, rows, page: str, **more: str):
    data = {**form_of(page), "id": [str(row.pk) for row in rows], "verdict": "approve", **more}
    return client.post("/together/", data)


def test_each_of_the_chosen_is_approved_by_itself(helpdesk, as_alice, alice):
    rows = refunds(3)
    page = as_alice.get(PAGE).content.decode()
    assert all(row.intent_digest in page for row in rows)
    answer = decide(as_alice, rows[:2], page)
    assert "2 of 2 are decided" in answer.content.decode()
    assert Transaction.objects.filter(state=State.APPROVED).count() == 2
    assert Decision.objects.filter(principal=str(alice)).count() == 2
    assert all('"together":2' in each.details for each in Event.objects.filter(kind="approved"))
    verification.verify()


def test_one_that_was_changed_meanwhile_does_not_stop_the_others(helpdesk, as_alice, bob, edited):
    rows = refunds(2)
    page = as_alice.get(PAGE).content.decode()
    edited(rows[0], bob, amount="1.20")
    text = decide(as_alice, rows, page).content.decode()
    assert "1 of 2 are decided" in text
    rows[0].refresh_from_db()
    assert rows[0].state == State.PREPARED


def test_enter_in_the_reason_decides_nothing(helpdesk, as_alice):
    refunds(1)
    page = as_alice.get(PAGE).content.decode()
    form = page[page.index("data-together") :]
    first = re.findall(r"<button([^>]*)>", form)[0]  # a browser presses it where Enter is pressed
    assert "disabled" in first


def test_what_was_not_on_the_page_is_not_approved(helpdesk, as_alice):
    [row] = refunds(1)
    answer = as_alice.post(
        "/together/", {"tool": "refund", "verdict": "approve", "id": [str(row.pk)]}
    )
    assert "0 of 1" in answer.content.decode()
    row.refresh_from_db()
    assert row.state == State.PREPARED


def test_a_rule_can_ask_to_decide_one_by_one(activated, helpdesk, as_alice, alice):
    rule = {"when": {"tool": "refund"}, "then": {"verdict": "ask", "one_by_one": True}}
    before = refunds(2)
    page = as_alice.get(PAGE).content.decode()
    activated(rule)
    assert "0 of 2" in decide(as_alice, before, page).content.decode()
    propose("refund", order="later", amount="12.00")
    assert "1 more is decided" in as_alice.get(PAGE).content.decode()


def test_what_cannot_be_undone_is_decided_alone(helpdesk, as_alice):
    propose("launch", rocket="r1")
    propose("launch", rocket="r2")
    page = as_alice.get("/together/?tool=launch").content.decode()
    assert "2 more are decided on their own pages" in page
    assert "data-several" not in as_alice.get("/").content.decode()


def test_the_inbox_offers_it(helpdesk, as_alice):
    refunds(2)
    assert "Decide 2 of “Refund” together" in as_alice.get("/").content.decode()


def test_the_enter_key_presses_no_button_that_decides(helpdesk, as_alice):
    refunds(2)
    form = as_alice.get(PAGE).content.decode().partition("data-together>")[2]
    assert form.partition("<button")[2].startswith(" disabled")


def test_nothing_chosen_and_no_reason_are_said_so(helpdesk, as_alice):
    rows = refunds(1)
    page = as_alice.get(PAGE).content.decode()
    assert decide(as_alice, [], page).status_code == 422
    answer = decide(as_alice, rows, page, verdict="reject")
    assert (answer.status_code, "Say why" in answer.content.decode()) == (422, True)
    done = decide(as_alice, rows, page, verdict="reject", reason="Not these.")
    assert "1 of 1 is decided" in done.content.decode()


def test_another_tenants_are_not_there(helpdesk, as_carol):
    rows = refunds(1)
    page = as_carol.get(PAGE).content.decode()
    assert str(rows[0].pk) not in page
    assert decide(as_carol, rows, page).status_code == 200
    rows[0].refresh_from_db()
    assert rows[0].state == State.PREPARED


def test_only_those_of_one_tool_at_once(helpdesk, as_alice):
    rows = [*refunds(1), propose("pay")]
    page = as_alice.get(PAGE).content.decode()
    answer = decide(as_alice, rows, page)
    assert "not of one tool" in answer.content.decode()
