"""What operators set and see: limits of an agent in the admin, on /ops/ and in /metrics."""

from __future__ import annotations

import pytest
from django.urls import reverse

from approvals import metrics
from ledger.events.account_changes import chain_of
from ledger.limits import refusals
from ledger.models import Agent, Event, LimitRefusal
from tests.limits.test_caps import forget

pytestmark = pytest.mark.django_db


def save(client, agent: Agent, **fields):
    form = {"name": agent.name, "is_active": "on", "tools": "*", "webhook_url": "", **fields}
    return client.post(reverse("desk:agent", args=[agent.pk]), form)


def test_a_limit_that_an_operator_sets_counts_and_is_a_sealed_change(
    as_olga, helpdesk, as_helpdesk
):
    assert save(as_olga, helpdesk, limit_pending="2").status_code == 302
    forget()

    statuses = [as_helpdesk.propose().status_code for _ in range(3)]

    assert statuses == [201, 201, 429]
    helpdesk.refresh_from_db()
    assert helpdesk.limits == {"pending": 2}
    event = Event.objects.filter(subject=chain_of(str(helpdesk.principal))).latest("seq")
    assert event.kind == "agent_changed"
    assert '"limit_pending":[null,2]' in event.details


def test_an_emptied_field_is_the_default_again(as_olga, helpdesk):
    save(as_olga, helpdesk, limit_pending="2")
    page = as_olga.get(reverse("desk:agent", args=[helpdesk.pk])).content.decode()
    assert 'placeholder="500"' in page
    assert 'value="2"' in page

    save(as_olga, helpdesk, **{"initial-limit_pending": "2", "limit_pending": ""})

    helpdesk.refresh_from_db()
    assert helpdesk.limits == {}


def test_no_limit_is_less_than_one(as_olga, helpdesk):
    assert save(as_olga, helpdesk, limit_tasks="0").status_code == 422
    helpdesk.refresh_from_db()
    assert helpdesk.limits == {}


def test_operators_see_who_is_full_and_what_was_refused(as_olga, helpdesk, as_helpdesk):
    LimitRefusal.objects.all().delete()
    save(as_olga, helpdesk, limit_pending="2")
    forget()
    for _ in range(4):
        as_helpdesk.propose()
    refusals.flush()

    page = " ".join(as_olga.get("/ops/").content.decode().split())

    assert "2 of 2 transactions that wait for sign-off" in page
    assert "2 requests, for transactions that wait for sign-off" in page
    figure = metrics.gathered()["assent_limit_refusals_recent"]
    assert figure.of(limit="pending", of="agent", tenant="acme") == 2
