"""Index, lists and saved filters of the ledger admin, in the reader's language."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Permission
from django.http import QueryDict
from django.urls import reverse
from django.utils.html import escape

from a2a.models import Task
from approvals.models import SavedView
from approvals.web.account import ledger_filters
from ledger.admin.base import COLUMNS
from ledger.models import Transaction
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db

LIST = "/admin/ledger/transaction/"
TABLES = (
    "ledger/transaction", "ledger/event", "ledger/decision", "ledger/delivery",
    "ledger/checkpoint", "ledger/idempotencykey", "ledger/reading", "a2a/task", "a2a/question",
    "git_bus/busrequest", "approvals/slackmessage",
)  # fmt: skip
LABELS = ["ledger", "a2a", "git_bus", "approvals"]


@pytest.fixture
def as_operator(olga_user):
    olga_user.is_staff = True
    olga_user.save()
    rights = Permission.objects.filter(content_type__app_label__in=LABELS)
    olga_user.user_permissions.set(rights)
    return signed_in(olga_user)


def page_of(client, address, **headers):
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def save(client, query, name="Mine"):
    return client.post("/views/save", {"place": "ledger", "name": name, "query": query})


@pytest.mark.of_app("approvals.slack")
@pytest.mark.of_app("a2a.doors.git_bus")
def test_the_index_is_in_the_order_of_work_with_a_sentence_for_each_table(as_operator):
    page = page_of(as_operator, "/admin/")

    tables = re.findall(r'<a href="/admin/(\w+/\w+)/">', page)
    assert tables[:4] == ["ledger/transaction", "a2a/task", "a2a/question", "ledger/reading"]
    assert set(TABLES) <= set(tables)
    assert page.count("<span>") >= len(TABLES)
    assert "Authentication" not in page


def test_who_may_look_at_one_table_sees_no_other_and_no_empty_box(olga_user, as_operator):
    olga_user.user_permissions.set(Permission.objects.filter(codename="view_event"))

    page = page_of(as_operator, "/admin/")

    assert re.findall(r'<a href="/admin/(\w+/\w+)/">', page) == ["ledger/event"]
    assert page.count("<section") == 1


@pytest.mark.of_app("approvals.slack")
@pytest.mark.of_app("a2a.doors.git_bus")
def test_lists_and_rows_are_german_for_german_readers(as_operator, a_payment, approved):
    row = a_payment()
    approved()

    for table in TABLES:
        german = page_of(as_operator, f"/admin/{table}/", accept_language="de")
        heads = re.findall(r'<div class="text">(?:<span>)?([^<]+)<', german)
        english = {str(name).capitalize() for name in COLUMNS.values()}
        alike = {"Status", "Route", "Commit", "Hash", "Text", "Problem", "Agent", "Workspace"}
        assert not {head.capitalize() for head in heads} & (english - alike), table
    listed = page_of(as_operator, LIST, accept_language="de")
    assert "Vorgänge" in listed
    assert "wartet auf Freigabe" in listed
    assert "waiting for sign-off" not in listed
    of_row = page_of(as_operator, f"{LIST}{row.pk}/change/", accept_language="de")
    assert "Vorgangsschlüssel" in of_row
    assert "Nur für den Betrieb" in of_row


def test_a_row_leads_to_the_desk_and_back(as_operator, a_payment):
    row = a_payment()
    desk = reverse("desk:transaction", args=[row.pk])
    ledger = reverse("admin:ledger_transaction_change", args=[row.pk])

    assert f'<a href="{desk}">On the desk</a>' in page_of(as_operator, LIST)
    assert f'<a href="{desk}">On the desk</a>' in page_of(as_operator, ledger)
    assert f'href="{ledger}">In the ledger' in page_of(as_operator, f"{desk}record/")


def test_who_may_not_look_into_the_ledger_has_no_link_to_it(as_alice, a_payment):
    row = a_payment()

    for address in (f"/transactions/{row.pk}/", f"/transactions/{row.pk}/record/"):
        assert "In the ledger" not in page_of(as_alice, address)


def test_the_first_three_columns_say_when_what_and_how_it_stands():
    for model, first in ((Transaction, "when"), (Task, "created_at")):
        assert site._registry[model].list_display[:3] == (first, "summary", "state_")


# Saved filters


def test_a_filter_is_named_and_found_again(as_operator, a_payment, a_transaction):
    a_payment()
    listed = page_of(as_operator, f"{LIST}?state__exact=prepared&q=pay%3Aacme&p=1")
    query = re.search(r'name="query" value="([^"]+)"', listed)[1].replace("&amp;", "&")

    answer = save(as_operator, query, name="Waiting payments")

    assert answer["Location"] == f"{LIST}?q=pay%3Aacme&state__exact=prepared"
    page = page_of(as_operator, LIST)
    assert f'<a href="{escape(answer["Location"])}"><bdi>Waiting payments</bdi></a>' in page
    open_page = page_of(as_operator, answer["Location"])
    assert 'aria-current="true"><bdi>Waiting payments' in open_page
    assert "Waiting payments" not in page_of(as_operator, "/admin/ledger/delivery/")

    as_operator.post(f"/views/{SavedView.objects.get().pk}/remove")
    assert "Waiting payments" not in page_of(as_operator, LIST)


def test_without_a_filter_there_is_nothing_to_save(as_operator):
    assert 'action="/views/save"' not in page_of(as_operator, LIST)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "list=ledger_transaction",
        "list=nothing&q=a",
        "q=a",
        "list=ledger_transaction&proposed_by__startswith=agent",
        "list=ledger_delivery&q=no-search-there",
    ],
)
def test_what_the_list_does_not_offer_is_not_kept(as_operator, query):
    save(as_operator, query)

    assert not SavedView.objects.exists()


@pytest.mark.parametrize(
    "stored",
    ["list=//evil.example&q=a", "next=https://evil.example", "list=ledger_transaction&%00=a"],
)
def test_a_stored_filter_is_read_anew(as_operator, olga_user, stored):
    row = SavedView.objects.create(user=olga_user, place="ledger", name="Odd", query=stored)

    there = ledger_filters.address_of(ledger_filters.clean(QueryDict(row.query)))
    gone = as_operator.post(f"/views/{row.pk}/remove")

    assert urlsplit(there).netloc == "" == urlsplit(gone["Location"]).netloc
    assert urlsplit(there).path in {"/admin/", LIST}


def test_filters_are_their_own_persons(as_operator, as_alice):
    save(as_operator, "list=ledger_transaction&q=a")

    assert as_alice.post(f"/views/{SavedView.objects.get().pk}/remove").status_code == 404
