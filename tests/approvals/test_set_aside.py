"""A payment set aside leaves one person's list, comes back in time, and nothing else changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from approvals.desk import Viewer, inbox
from approvals.models import SetAside
from approvals.notifications import subjects, waits_for
from approvals.people import principal_of
from approvals.web import open_sessions, pushed_rows
from approvals.web.pushed_rows import Browser
from ledger.models import Transaction
from ledger.transactions import coordinator
from tests.conftest import propose

pytestmark = pytest.mark.django_db
FRAGMENT = {"HX-Request": "true"}
LONG, SOON = timedelta(hours=20), timedelta(hours=1)


@pytest.fixture
def payment(a_payment):
    return lasting(a_payment(), LONG)


def lasting(row: Transaction, life: timedelta, gone: timedelta = timedelta(0)) -> Transaction:
    began = timezone.now() - gone
    Transaction.objects.filter(pk=row.pk).update(created_at=began, expires_at=began + life)
    row.refresh_from_db()
    return row


def set_aside(person: Client, row: Transaction, until: str = "hour"):
    return person.post(f"/transactions/{row.pk}/aside", {"until": until})


def listed(person: Client, query: str = "") -> set[str]:
    groups = person.get(f"/{query}").context["groups"]
    return {entry.row.pk for group in groups for entry in group.rows}


def badge(person: Client) -> int:
    return person.get("/history/").context["waiting_count"]


def page(person: Client, row: Transaction) -> str:
    return person.get(f"/transactions/{row.pk}/").content.decode()


def later(by: timedelta) -> None:
    """As if it had been set aside, proposed and limited so much earlier."""
    SetAside.objects.update(until=F("until") - by, set_at=F("set_at") - by)
    Transaction.objects.update(expires_at=F("expires_at") - by, created_at=F("created_at") - by)


def test_it_leaves_the_list_and_the_counts_of_one_person_alone(
    as_alice, as_bob, alice_user, payment, a_payment
):
    other = a_payment()

    assert set_aside(as_alice, payment)["Location"] == "/"

    assert listed(as_alice) == {other.pk}
    assert listed(as_bob) == {payment.pk, other.pk}
    assert (badge(as_alice), badge(as_bob)) == (1, 2)
    html = as_alice.get("/").content.decode()
    assert '<a href="/?aside=1">1 set aside</a>' in html
    assert "set aside</a>" not in as_bob.get("/").content.decode()
    assert [entry.is_waiting for entry in changed(as_alice, payment)] == [False]
    assert inbox.beside(other, viewer_of(alice_user)).next is None


def viewer_of(user) -> Viewer:
    return Viewer(str(principal_of(user)), {"acme": frozenset({"approver"})}, frozenset({"acme"}))


def changed(person: Client, row: Transaction):
    return person.get(f"/rows?id={row.pk}", headers=FRAGMENT).context["rows"]


def test_the_link_shows_what_is_set_aside_and_until_when(as_alice, payment, a_payment):
    a_payment()
    set_aside(as_alice, payment)

    assert listed(as_alice, "?aside=1") == {payment.pk}
    html = as_alice.get("/?aside=1").content.decode()
    at = timezone.localtime(SetAside.objects.get().until)
    assert f"{at:%H:%M}" in html
    assert f'action="/transactions/{payment.pk}/aside/back"' in html
    assert "Set aside until" in page(as_alice, payment)


def test_it_comes_back_at_its_time(as_alice, payment):
    set_aside(as_alice, payment, "hour")
    later(timedelta(minutes=59))
    assert listed(as_alice) == set()

    later(timedelta(minutes=2))

    assert listed(as_alice) == {payment.pk}
    assert badge(as_alice) == 1


@pytest.mark.parametrize(
    ("life", "left"), [(LONG, timedelta(hours=2)), (timedelta(minutes=20), timedelta(minutes=5))]
)
def test_it_comes_back_before_it_expires(as_alice, a_payment, life, left):
    row = lasting(a_payment(), life)
    set_aside(as_alice, row, "latest")
    later(life - left - timedelta(minutes=1))
    assert listed(as_alice) == set()

    later(timedelta(minutes=2))

    assert listed(as_alice) == {row.pk}


def test_a_time_that_was_chosen_yields_to_an_earlier_end(as_alice, payment):
    set_aside(as_alice, payment, "next")
    ends = timezone.now() + timedelta(minutes=30)

    Transaction.objects.update(expires_at=ends)

    assert listed(as_alice) == set()
    later(timedelta(minutes=26))
    assert listed(as_alice) == {payment.pk}


def test_it_can_be_taken_back(as_alice, payment):
    set_aside(as_alice, payment)

    as_alice.post(f"/transactions/{payment.pk}/aside/back")

    assert listed(as_alice) == {payment.pk}
    assert "Set aside until" not in page(as_alice, payment)


def test_it_is_back_when_the_agent_asks_once_more(as_alice, payment, helpdesk):
    set_aside(as_alice, payment)

    coordinator.escalate(payment.pk, by=helpdesk.principal, via="api", reason="It is urgent.")

    assert listed(as_alice) == {payment.pk}
    set_aside(as_alice, payment)
    assert listed(as_alice) == set()


def test_the_vote_of_another_leaves_it_aside(as_alice, bob):
    row = lasting(propose("scuttle", rocket="r-1"), LONG)
    set_aside(as_alice, row)

    coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")

    assert listed(as_alice) == set()


def test_after_ones_own_vote_it_waits_for_others_on_the_list(as_alice, alice, acme):
    row = lasting(propose("scuttle", rocket="r-1"), LONG)
    set_aside(as_alice, row)

    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    assert listed(as_alice) == {row.pk}
    assert badge(as_alice) == 0


def test_no_notification_or_letter_speaks_of_it_meanwhile(
    as_alice, alice_user, bob_user, payment, a_payment
):
    other, now = a_payment(), timezone.now()
    set_aside(as_alice, payment)
    item = subjects.item_as_it_is(payment)

    assert [each.row.pk for each in subjects.all_for(alice_user, now)] == [other.pk]
    assert len(subjects.all_for(bob_user, now)) == 2
    assert not waits_for(item, alice_user, now)
    assert waits_for(item, bob_user, now)


def test_who_has_set_something_aside_fetches_their_rows(as_alice, alice, as_bob, payment):
    set_aside(as_alice, payment)
    [session] = open_sessions.read_all([as_bob.cookies["assent_session"].value])

    rows = pushed_rows.rows_for(
        pushed_rows.reader_of(session, Browser("en", "")), [str(payment.pk)], 1
    )

    assert str(alice) in rows.not_for


def test_what_expires_too_soon_cannot_be_set_aside(as_alice, a_payment):
    row = lasting(a_payment(), SOON, gone=timedelta(minutes=55))

    assert "Set aside…" not in page(as_alice, row)
    set_aside(as_alice, row, "latest")

    assert listed(as_alice) == {row.pk}


@pytest.mark.parametrize(
    ("hour", "label", "at"),
    [
        (7, "Until this morning", (1, 9)),
        (8, "Until this afternoon", (1, 14)),
        (13, "Until tomorrow morning", (2, 9)),
    ],
)
def test_mornings_and_afternoons_are_those_of_the_person(payment, hour, label, at):
    with timezone.override("Asia/Tokyo"):
        zone = timezone.get_current_timezone()
        now = datetime(2026, 3, 1, hour, 30, tzinfo=zone)
        payment.created_at, payment.expires_at = now, now + timedelta(days=2)

        _, choice, latest = inbox.choices(payment, now)

        assert choice.label == label
        assert choice.at == datetime(2026, 3, *at, tzinfo=zone).astimezone(UTC)
        assert latest.at == now + timedelta(hours=43, minutes=12)


def test_what_is_past_is_thrown_away_with_the_next(as_alice, alice, payment, a_payment):
    ended, other = lasting(a_payment(), LONG), lasting(a_payment(), LONG)
    set_aside(as_alice, payment)
    set_aside(as_alice, ended)
    coordinator.reject(ended.pk, digest=ended.intent_digest, by=alice, via="web", reason="No.")

    set_aside(as_alice, other)

    assert {row.transaction_id for row in SetAside.objects.all()} == {payment.pk, other.pk}


def test_nobody_sets_aside_what_they_may_not_see_or_decide(as_carol, as_vera, as_olga, payment):
    assert set_aside(as_carol, payment).status_code == 404
    assert as_carol.post(f"/transactions/{payment.pk}/aside/back").status_code == 404
    assert set_aside(as_vera, payment).status_code == 403
    assert set_aside(as_olga, payment).status_code == 403
    assert "Set aside…" not in page(as_vera, payment)
    assert not SetAside.objects.exists()
