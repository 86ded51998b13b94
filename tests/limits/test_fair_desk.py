"""No agent pushes another's rows off a list: the desk, its live rows, Slack's Home tab."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from approvals.desk.inbox.fair_share import PER_AGENT
from approvals.models import SlackWorkspace
from approvals.slack.rendering import home
from ledger.models import Transaction
from tests.conftest import propose

pytestmark = pytest.mark.django_db
FRAGMENT = {"HX-Request": "true"}
FLOOD = PER_AGENT + 15


@pytest.fixture
def flood(acme):
    """Many pending rows of one agent, all of them more urgent than the other agent's."""
    rows = [propose() for _ in range(FLOOD)]
    Transaction.objects.update(proposed_by="agent:acme/busy", proposed_by_name="Busy agent")
    return rows


def shown_in(page: str) -> list[str]:
    return re.findall(r'id="row-([0-9a-f-]{36})"', page)


def test_the_other_agents_row_is_listed_however_much_one_agent_has_pending(
    as_alice, flood, a_payment
):
    other = a_payment()

    page = as_alice.get("/").content.decode()

    shown = shown_in(page)
    assert str(other.pk) in shown
    assert len(shown) == PER_AGENT + 1
    assert set(shown) >= {str(row.pk) for row in flood[:PER_AGENT]}
    assert re.search(r"15 more transactions of\s+<bdi>Busy agent</bdi>", page)
    assert f'data-total="{FLOOD + 1}"' in page


@pytest.mark.slow
def test_five_hundred_rows_of_one_agent_leave_another_agents_row_on_the_first_page(
    as_alice, acme, a_payment
):
    other = a_payment()

    def flooded(rows: int) -> tuple[str, int]:
        """The page with so many rows of the busy agent, and how often it asks the database."""
        mine = Transaction.objects.exclude(pk=other.pk)
        while mine.count() < rows:
            propose()
        mine.update(proposed_by="agent:acme/busy", proposed_by_name="Busy agent")
        as_alice.get("/")  # keeps what is the same for all
        with CaptureQueriesContext(connection) as queries:
            page = as_alice.get("/").content.decode()
        return page, len(queries)

    _, few = flooded(FLOOD)
    page, many = flooded(500)

    assert str(other.pk) in shown_in(page)
    assert len(shown_in(page)) == PER_AGENT + 1
    assert 'data-total="501"' in page
    assert many == few


def test_the_link_shows_all_of_that_agent_and_the_way_back(as_alice, flood, a_payment):
    other = a_payment()

    page = as_alice.get("/?agent=agent:acme/busy").content.decode()

    assert len(shown_in(page)) == FLOOD
    assert str(other.pk) not in shown_in(page)
    assert 'href="/?q=" title="Take this filter away"><bdi>Busy agent</bdi>' in page


def test_an_agent_that_is_alone_on_the_list_has_all_of_it(as_alice, flood):
    page = as_alice.get("/").content.decode()

    assert len(shown_in(page)) == FLOOD
    assert "data-more" not in page


def test_a_new_row_beyond_its_agents_share_is_counted_and_not_put_on_an_open_desk(
    as_alice, flood, a_payment
):
    other = a_payment()
    last = flood[-1]

    answer = as_alice.get(f"/rows?id={last.pk}&id={other.pk}", headers=FRAGMENT).content.decode()

    assert shown_in(answer) == [str(other.pk)]
    assert "data-hidden-changed" in answer
    assert f'data-total="{FLOOD + 1}"' in answer


def test_a_decided_row_of_a_busy_agent_still_leaves_an_open_desk(as_alice, flood, a_payment, alice):
    a_payment()
    first = flood[0]
    as_alice.post(
        reverse("desk:transaction-reject", args=[first.pk]),
        {"digest": first.intent_digest, "reason": "No."},
        headers=FRAGMENT,
    )

    answer = as_alice.get(f"/rows?id={first.pk}", headers=FRAGMENT).content.decode()

    assert shown_in(answer) == [str(first.pk)]
    assert "data-hidden-changed" not in answer


def test_a_search_counts_only_what_matches(as_alice, flood, a_payment):
    a_payment(reference="needle")
    flood[0].__class__.objects.filter(pk=flood[-1].pk).update(action_summary="Pay for a needle")

    page = as_alice.get("/?q=needle").content.decode()

    assert len(shown_in(page)) == 2
    assert "data-more" not in page


def test_the_home_tab_takes_turns_and_counts_all(flood, a_payment, alice_user):
    other = a_payment()
    acme_in_slack = SlackWorkspace.objects.create(team_id="T0ACME", name="Acme", bot_user_id="U1")

    blocks = str(home.view_for(alice_user, acme_in_slack).to_dict())

    assert f"{FLOOD + 1} items wait for you." in blocks
    assert str(other.pk) in blocks
