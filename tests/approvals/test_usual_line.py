"""The item's page says what an approver should look twice at, in the reader's words."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from django.utils.html import strip_tags

from approvals.models import Preferences
from ledger.models import Transaction


def line_of(client, row):
    """Whether the line stands out, and its text."""
    page = client.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    (classes, text) = re.search(r'<p class="(usual[^"]*)">(.*?)</p>', page, re.S).groups()
    return "soon" in classes, " ".join(strip_tags(text).split())


@pytest.fixture
def a_refund(as_helpdesk):
    """Of €484.00, with this reason."""

    def make(reason):
        arguments = {"reference": "order-7", "amount": "484.00"}
        answer = as_helpdesk.propose(arguments=arguments, reason=reason)
        return Transaction.objects.get(pk=answer.json()["transaction_id"])

    return make


def test_the_first_request_of_an_agent_is_said_quietly(as_alice, a_refund):
    assert line_of(as_alice, a_refund("It broke.")) == (
        False,
        "Helpdesk agent asks for “Pay” for the first time in 30 days.",
    )


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "The reason says 4,840.00, the amount is €484.00."),
        ("de", "In der Begründung steht 4.840,00, der Betrag ist 484,00 €."),
    ],
)
def test_a_typing_error_is_told_in_the_readers_format(
    as_alice, alice_user, a_refund, language, sentence
):
    Preferences.objects.create(user=alice_user, language=language)

    stands_out, text = line_of(as_alice, a_refund("The lamp broke, 4 840.00 back."))

    assert stands_out
    assert text.startswith(sentence)


def test_a_reason_that_names_the_amount_is_said_quietly(as_alice, a_refund):
    stands_out, text = line_of(as_alice, a_refund("48.40 for the post, 484 in all."))

    assert not stands_out
    assert "48.40" not in text
