"""An agent's webhook tells what people changed, asked and sent back."""

from __future__ import annotations

import pytest

from ledger.delivery.webhooks.channel import payload_of
from ledger.states import EventKind
from ledger.transactions import coordinator

pytestmark = pytest.mark.django_db


def test_it_is_told_what_was_changed(refund, edited):
    told = payload_of(edited(refund, amount="48.20"), EventKind.REVISED)
    assert told["type"] == "transaction.revised"
    assert {"path": "arguments.amount", "from": "482.00", "to": "48.20"} in told["data"]["changed"]


def test_it_is_told_the_question(refund, alice):
    row = coordinator.ask(refund.pk, by=alice, via="web", text="Which order?")
    told = payload_of(row, EventKind.ASKED)
    assert (told["type"], told["data"]["question"]["text"]) == ("transaction.asked", "Which order?")


def test_it_is_told_why_it_was_sent_back(refund, alice):
    row = coordinator.send_back(
        refund.pk, digest=refund.intent_digest, by=alice, via="web", reason="Less, please."
    )
    told = payload_of(row, EventKind.SENT_BACK)
    assert told["type"] == "transaction.sent_back"
    assert told["data"]["change_request"]["text"] == "Less, please."


def test_all_else_is_told_by_its_state(refund):
    assert payload_of(refund, EventKind.EXPIRED)["type"] == "transaction.prepared"
