"""Page and Slack say the same of what a tool elsewhere does not promise, and nothing of others."""

from __future__ import annotations

import pytest
from django.utils import translation

from approvals.presentation import labels
from approvals.slack.rendering import transaction as in_slack
from tests.conftest import propose

pytestmark = pytest.mark.django_db(transaction=True)

INVOICE = {"invoice": "2042", "amount": 48.2}
BARE = ["not dry-run: the service has not seen it yet"]
LOST = "no receipt look-up: if its answer is lost, people find out what happened"


def test_page_and_slack_say_what_is_not_promised_in_the_same_words(registered, as_alice):
    registered(routes=[])
    row = propose("refund_invoice", **INVOICE)

    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    (origin, *_) = in_slack._origin(row)

    assert labels.not_promised(row) == [*BARE, LOST]
    for words in [*BARE, LOST]:
        assert words[1:] in page
        assert words in origin.elements[0].text


def test_what_may_be_called_again_says_so_instead_of_people(registered):
    registered(routes=[], contract={"retry_safe": True})
    row = propose("refund_invoice", **INVOICE)

    again = "no receipt look-up: if its answer is lost, it is called again"
    assert labels.not_promised(row) == [*BARE, again]


def test_a_service_that_plans_and_looks_up_and_a_tool_of_ours_lack_nothing(
    registered, service, a_payment
):
    service.answers["plan"] = (200, {"plan": {"summary": "Refund"}})
    registered()
    elsewhere = propose("refund_invoice", **INVOICE)

    assert labels.not_promised(elsewhere) == []
    assert labels.not_promised(a_payment()) == []


def test_it_is_said_in_german_too(registered):
    registered(routes=[])
    row = propose("refund_invoice", **INVOICE)

    with translation.override("de"):
        assert labels.not_promised(row)[0].startswith("ohne Probelauf")
