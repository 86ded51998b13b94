"""Saved views: a person's own filters of the inbox and the history, under a name."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from approvals.models import SavedView
from approvals.web.account import saved_views

pytestmark = pytest.mark.django_db


def save(person, **fields):
    return person.post("/views/save", {"place": "inbox", "name": "Mine", "query": "", **fields})


def opened(person, page):
    """The address of each saved view that the page shows, by its name."""
    return {view.name: view.address for view in person.get(page).context["views"]}


@pytest.mark.parametrize(
    ("place", "page", "query"),
    [
        ("inbox", "/", "q=refund&tool=pay&risk=HIGH&agent=agent%3Aacme%2Fhelpdesk"),
        (
            "history",
            "/history/",
            "q=refund&tool=pay&state=aborted&since=2026-01-05&until=2026-02-01",
        ),
        ("history", "/history/", "days=7"),
    ],
)
def test_a_view_opens_its_page_with_all_its_filters(as_alice, place, page, query):
    answer = save(as_alice, place=place, name="Refunds <b>", query=query)

    assert answer["Location"] == opened(as_alice, page)["Refunds <b>"]
    there = urlsplit(answer["Location"])
    assert there.path == page
    assert parse_qs(there.query) == parse_qs(query)
    html = as_alice.get(answer["Location"]).content.decode()
    assert re.search(r'aria-current="true"><bdi>Refunds &lt;b&gt;', html)


def test_a_view_of_days_stays_relative(as_alice, a_payment, alice):
    save(as_alice, place="history", name="Today", query="days=1&state=any")
    row = a_payment()

    there = opened(as_alice, "/history/")["Today"]

    assert [each.pk for each in as_alice.get(there).context["rows"]] == [row.pk]
    type(row).objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(days=2))
    assert list(as_alice.get(there).context["rows"]) == []


def test_views_are_of_one_person_and_one_page(as_alice, as_bob):
    save(as_alice, query="q=refund")

    assert list(opened(as_alice, "/")) == ["Mine"]
    assert opened(as_alice, "/history/") == {}
    assert opened(as_bob, "/") == {}


def test_nobody_deletes_the_view_of_somebody_else(as_alice, as_bob):
    save(as_alice, query="q=refund")
    row = SavedView.objects.get()

    assert as_bob.post(f"/views/{row.pk}/remove").status_code == 404
    assert SavedView.objects.exists()
    as_alice.post(f"/views/{row.pk}/remove")
    assert not SavedView.objects.exists()


def test_the_same_name_is_replaced_and_twenty_are_enough(as_alice, alice_user):
    for number in range(saved_views.MOST_VIEWS):
        save(as_alice, name=f"View {number}", query="q=a")

    save(as_alice, name="One more", query="q=a")
    save(as_alice, name="View 3", query="q=b")

    views = dict(SavedView.objects.filter(user=alice_user).values_list("name", "query"))
    assert len(views) == saved_views.MOST_VIEWS
    assert views["View 3"] == "q=b"
    assert "One more" not in views


@pytest.mark.parametrize(
    "fields",
    [
        {"query": ""},
        {"query": "risk=UNHEARD_OF&nonsense=1"},
        {"query": "before=00000000-0000-0000-0000-000000000001", "place": "history"},
        {"query": "q=a", "name": ""},
        {"query": "q=a", "name": "x" * 61},
        {"query": "q=a", "place": "people"},
    ],
)
def test_what_is_no_view_is_not_kept_and_the_person_is_told(as_alice, fields):
    answer = save(as_alice, **fields)

    assert not SavedView.objects.exists()
    assert urlsplit(answer["Location"]).path in {"/", "/history/"}
    assert 'class="block bad"' in as_alice.get("/").content.decode()


@pytest.mark.parametrize("stored", ["next=//evil.example", "q=a&next=https://evil.example/", "%00"])
def test_a_stored_query_is_read_through_the_form_again(as_alice, alice_user, stored):
    SavedView.objects.create(user=alice_user, place="inbox", name="Odd", query=stored)

    there = opened(as_alice, "/")["Odd"]

    assert urlsplit(there).path == "/"
    assert "evil" not in there
    assert as_alice.get(there).status_code == 200
