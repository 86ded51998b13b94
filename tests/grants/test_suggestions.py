"""What a person keeps approving is suggested, and nothing that moves money or was doubted."""

from __future__ import annotations

import pytest
from django.urls import reverse

from approvals.desk.grants.suggestions import LEAST, suggestions_for
from ledger.transactions import coordinator
from tests.grants.conftest import TEN_TIMES

pytestmark = pytest.mark.django_db


@pytest.fixture
def approve_often(a_transaction, alice, activated):
    activated({"when": {"tool": "write_note"}, "then": "ask"})

    def approve(tool, times=LEAST, by=alice, **arguments):
        rows = [a_transaction(tool, **arguments, **{_KEYS[tool]: f"n-{n}"}) for n in range(times)]
        for row in rows:
            coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")
        return rows

    return approve


_KEYS = {"write_note": "text", "refund": "order", "launch": "rocket"}


def tools_suggested(person):
    return [each.tool for each in suggestions_for(str(person), ["acme"])]


def test_what_a_person_approved_ten_times_is_suggested_to_that_person(approve_often, alice, bob):
    rows = approve_often("write_note")

    [suggestion] = suggestions_for(str(alice), ["acme"])

    assert (suggestion.tool, suggestion.approved) == ("write_note", LEAST)
    assert (suggestion.latest, suggestion.last_week) == (rows[-1].pk, LEAST)
    assert suggestions_for(str(bob), ["acme"]) == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("refund", {"amount": "5"}), ("launch", {})],
    ids=["money", "irreversible"],
)
def test_neither_money_nor_what_cannot_be_undone_is(approve_often, alice, tool, arguments):
    approve_often(tool, **arguments)

    assert tools_suggested(alice) == []


def test_what_somebody_rejected_is_not(approve_often, a_transaction, alice, bob):
    approve_often("write_note")
    row = a_transaction("write_note", text="no")
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="No.")

    assert tools_suggested(alice) == []


def test_what_is_signed_in_advance_is_not(approve_often, alice, allowed):
    approve_often("write_note")
    allowed(tool="write_note", when={}, budgets=[TEN_TIMES])

    assert tools_suggested(alice) == []


def test_the_page_shows_it_with_what_it_would_have_signed(approve_often, as_alice, as_bob):
    rows = approve_often("write_note")

    page = as_alice.get("/standing/").content.decode()

    assert "You approved 10. Of the last 7 days, 10 would have been signed in advance." in page
    assert reverse("desk:transaction-allow", args=[rows[-1].pk]) in page
    assert "You keep approving" not in as_bob.get("/standing/").content.decode()
