"""The record as it opens: what somebody decided, the newest decision first."""

from __future__ import annotations

import pytest
from django.urls import reverse

from approvals.web.record import history
from ledger.models import Transaction
from ledger.transactions import coordinator

pytestmark = pytest.mark.django_db


def decide(row: Transaction, by, verdict="approve"):
    verb = coordinator.approve if verdict == "approve" else coordinator.reject
    extra = {} if verdict == "approve" else {"reason": "Wrong amount"}
    verb(row.pk, digest=row.intent_digest, by=by, via="web", **extra)


def shown(person, query=""):
    return [row.pk for row in person.get(reverse("desk:history") + query).context["rows"]]


def test_the_newest_decision_stands_first_whenever_it_was_asked_for(as_alice, alice, a_payment):
    first, second, waiting = (a_payment(reference=f"p{number}") for number in range(3))
    decide(second, alice)
    decide(first, alice, "reject")

    assert shown(as_alice) == [first.pk, second.pk]
    assert shown(as_alice, "?state=any") == [waiting.pk, second.pk, first.pk]


def test_what_nobody_decided_is_left_to_the_filter(as_alice, alice, a_payment):
    decided, expired = a_payment(reference="p1"), a_payment(reference="p2")
    decide(decided, alice)
    Transaction.objects.filter(pk=expired.pk).update(state="aborted", ending="expired")

    assert shown(as_alice) == [decided.pk]
    assert shown(as_alice, "?tool=pay") == [decided.pk]
    assert set(shown(as_alice, "?state=aborted")) == {expired.pk}


def test_pages_of_decisions_go_on_where_the_last_one_ended(as_alice, alice, a_payment, monkeypatch):
    monkeypatch.setattr(history, "HISTORY_PAGE", 2)
    rows = [a_payment(reference=f"p{number}") for number in range(5)]
    order = [rows[2], rows[0], rows[4], rows[1], rows[3]]
    for row in order:
        decide(row, alice)

    pages, query = [], ""
    while True:
        page = as_alice.get(reverse("desk:history") + query).context
        pages.append([row.pk for row in page["rows"]])
        if page["matches"].next is None:
            break
        query = f"?before={page['matches'].next}"

    newest_first = [row.pk for row in reversed(order)]
    assert pages == [newest_first[:2], newest_first[2:4], newest_first[4:]]


def test_nobody_is_shown_the_decisions_of_another_tenant(as_carol, alice, a_payment):
    decide(a_payment(), alice)

    assert shown(as_carol) == []
