"""What waits for whom: the groups of the inbox, the badge of every page, and who is next."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from approvals.desk import viewers
from approvals.desk.inbox import fair_share, inbox
from approvals.desk.viewers import Viewer
from approvals.http.middleware import roles_of, tenants_of
from approvals.people import principal_of
from ledger.models import Transaction
from ledger.transactions import coordinator
from tests.house.source import ROOT

pytestmark = pytest.mark.django_db
FRAGMENT = {"HX-Request": "true"}


def viewer(user):
    return Viewer(str(principal_of(user)), roles_of(user), tenants_of(user))


def groups_of(user):
    listing = inbox.waiting(viewer(user), inbox.Filters(), timezone.now())
    return {
        group.key: [entry.row.pk for entry in group.rows]
        for group in inbox.grouped(listing)
        if group.rows
    }


def badge(page) -> int:
    return int(re.search(r'data-total="(\d+)"', page)[1])


def test_what_i_signed_waits_for_others_and_is_not_in_my_badge(
    a_transaction, a_payment, alice, alice_user, bob_user, as_alice
):
    grave, calm = a_transaction("scuttle", rocket="r1"), a_payment()
    assert groups_of(alice_user) == {"mine": [grave.pk, calm.pk]}

    coordinator.approve(grave.pk, digest=grave.intent_digest, by=alice, via="web")

    assert groups_of(alice_user) == {"mine": [calm.pk], "others": [grave.pk]}
    assert groups_of(bob_user) == {"mine": [grave.pk, calm.pk]}
    page = as_alice.get("/", headers=FRAGMENT).content.decode()
    assert badge(page) == inbox.count(viewer(alice_user)) == 1
    assert re.search(r"1 of 2</span>\s+· <bdi>Bob Tanaka next</bdi>", page)


def test_only_an_operator_has_what_is_in_doubt_for_themselves(a_payment, alice_user, olga_user):
    doubtful, calm = a_payment(), a_payment()
    Transaction.objects.filter(pk=doubtful.pk).update(state="in_doubt")

    assert groups_of(alice_user) == {"mine": [calm.pk], "doubt": [doubtful.pk]}
    assert groups_of(olga_user) == {"mine": [doubtful.pk], "others": [calm.pk]}
    assert inbox.count(viewer(olga_user)) == 1


def test_what_cannot_be_undone_comes_before_what_expires_sooner(
    a_payment, a_transaction, alice_user
):
    soon, later = a_payment(), a_payment()
    grave = a_transaction("launch", rocket="r1")
    Transaction.objects.filter(pk=soon.pk).update(expires_at=F("expires_at") - timedelta(minutes=5))

    assert groups_of(alice_user) == {"mine": [grave.pk, soon.pk, later.pk]}


def test_what_expires_in_two_minutes_stands_first_whatever_its_gravity(
    a_payment, a_transaction, alice_user
):
    calm, soon, sooner = a_payment(), a_payment(), a_payment()
    grave = a_transaction("launch", rocket="r1")
    now = timezone.now()
    for row, seconds in ((soon, 115), (sooner, 60)):
        at = now + timedelta(seconds=seconds)
        Transaction.objects.filter(pk=row.pk).update(expires_at=at)

    assert groups_of(alice_user) == {"mine": [sooner.pk, soon.pk, grave.pk, calm.pk]}


def test_the_script_that_moves_rows_up_has_the_same_ranks():
    script = (ROOT / "static" / "js" / "list.js").read_text()

    soon, first, later = re.search(
        r'SOON = ([\d_]+), SOON_FOR_ME = "(\d)", LATER_FOR_ME = /\^\[(\d+)\]/', script
    ).groups()

    assert int(soon) == viewers.SOON.total_seconds() * 1000
    assert int(first) == viewers.SOON_FOR_ME
    assert {int(rank) for rank in later} == {viewers.GRAVE_FOR_ME, viewers.FOR_ME}


def test_the_heading_has_the_number_of_the_badge(a_payment, as_alice, monkeypatch):
    monkeypatch.setattr(fair_share, "PER_AGENT", 2)
    monkeypatch.setattr(fair_share, "MOST_ROWS", 3)
    for _ in range(5):
        a_payment()

    page = as_alice.get("/", headers=FRAGMENT).content.decode()

    assert page.count('class="row ') == 3
    assert badge(page) == 5
    assert re.search(r"data-group-count>(\d+)", page)[1] == "5"
    assert re.search(r'data-rest="(\d+)"', page)[1] == "2"


def test_previous_and_next_are_the_neighbours_on_the_list(a_payment, a_transaction, as_alice):
    calm, soon, grave = a_payment(), a_payment(), a_transaction("launch", rocket="r1")
    soon_at = timezone.now() + timedelta(seconds=115)
    Transaction.objects.filter(pk=soon.pk).update(expires_at=soon_at)

    def neighbours(row):
        page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
        links = re.findall(r'/transactions/([0-9a-f-]{36})/" rel="(prev|next)"', page)
        return {rel: pk for pk, rel in links}

    assert neighbours(soon) == {"next": str(grave.pk)}
    assert neighbours(grave) == {"prev": str(soon.pk), "next": str(calm.pk)}
    assert neighbours(calm) == {"prev": str(grave.pk)}
    page = as_alice.get("/", headers=FRAGMENT).content.decode()
    listed = dict.fromkeys(re.findall(r'href="/transactions/([0-9a-f-]{36})/', page))
    assert list(listed) == [str(row.pk) for row in (soon, grave, calm)]


def test_what_has_expired_is_not_in_the_badge_and_one_quiet_line(a_payment, alice_user, as_alice):
    row = a_payment()
    now = timezone.now()
    Transaction.objects.filter(pk=row.pk).update(
        created_at=now - timedelta(seconds=9), expires_at=now - timedelta(seconds=3)
    )

    page = as_alice.get("/").content.decode()

    assert inbox.count(viewer(alice_user)) == 0
    assert re.search(r'class="row [^"]*lapsed', page)
    assert "1 just expired" in page


def test_the_inbox_takes_as_many_queries_for_sixty_rows_as_for_one(
    a_payment, as_alice, django_assert_max_num_queries
):
    a_payment()
    as_alice.get("/", headers=FRAGMENT)
    for _ in range(60):
        a_payment()

    with django_assert_max_num_queries(15):
        page = as_alice.get("/", headers=FRAGMENT).content.decode()

    assert page.count('id="row-') == inbox.PAGE


def test_a_browser_that_missed_a_moment_is_given_what_changed_and_after_long_the_whole_list(
    a_payment, as_alice
):
    row = a_payment()
    moment = (timezone.now() - timedelta(seconds=5)).isoformat()
    long_ago = (timezone.now() - timedelta(hours=1)).isoformat()

    missed = as_alice.get("/rows", {"since": moment}, headers=FRAGMENT)
    too_much = as_alice.get("/rows", {"since": long_ago}, headers=FRAGMENT)
    nonsense = as_alice.get("/rows", {"since": "yesterday"}, headers=FRAGMENT)

    assert f"row-{row.pk}" in missed.content.decode()
    assert [answer.status_code for answer in (too_much, nonsense)] == [205, 205]


def test_a_person_without_a_role_is_told_so(client, django_user_model):
    person = django_user_model.objects.create_user("nora", password="nora")
    client.force_login(person)

    page = client.get("/").content.decode()

    assert "You have no role yet" in page
    assert "Nothing waits for you" not in page


def test_a_script_whose_session_ended_is_sent_to_sign_in_and_comes_back_to_its_page(
    client, a_payment
):
    row = a_payment()
    there = f"http://testserver/transactions/{row.pk}/"

    answer = client.post(
        f"/transactions/{row.pk}/approve",
        {"digest": row.intent_digest},
        headers=FRAGMENT | {"HX-Current-URL": there},
    )
    elsewhere = client.get("/rows", headers=FRAGMENT | {"HX-Current-URL": "https://evil.example/"})

    assert answer.status_code == elsewhere.status_code == 401
    assert answer["HX-Redirect"] == f"/sign-in/?next=%2Ftransactions%2F{row.pk}%2F&why=ended"
    assert elsewhere["HX-Redirect"] == "/sign-in/?next=%2F&why=ended"
