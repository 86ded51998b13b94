"""Transactions are found by words, whole values and dates, however many there are."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from ledger import execution
from ledger.management.commands import rebuild_search
from ledger.models import SearchTerm, Transaction
from ledger.proof import retention
from ledger.reporting import search
from ledger.reporting.search import Hits, Wanted
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.forgery import end_retention

pytestmark = pytest.mark.django_db(transaction=True)
ACME = frozenset({"acme"})


@pytest.fixture
def ended(approved):
    """A payment that was carried out."""

    def make(reference: str, **arguments: str) -> Transaction:
        row = approved(reference=reference, **arguments)
        execution.commit(row.pk)
        return Transaction.objects.get(pk=row.pk)

    return make


@pytest.fixture
def aborted_among(acme, ended, alice):
    """A rejected payment, and newer ones of the same words that were carried out."""

    def make(number: int) -> Transaction:
        row = propose(reference="Ada-0")
        coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
        execution.roll_back(row.pk)
        for place in range(number):
            ended(f"Ada-{place + 1}")
        return Transaction.objects.get(pk=row.pk)

    return make


def find(text: str = "", **wanted: object) -> list[Transaction]:
    return search.find(Wanted(**{"tenants": ACME, "text": text, **wanted}), 50).rows


@pytest.mark.parametrize(
    "text",
    ["lovelace", "LOVE", "Ada Lovelace", "lovelace, pay", "ada-lovelace", "pay:acme:ada", "48.20"],
)
def test_what_has_ended_is_found_by_words_and_how_they_begin(ended, text):
    row = ended("Ada-Lovelace")
    ended("Grace-Hopper", amount="12.00")

    assert find(text) == [row]


@pytest.mark.parametrize("text", ["velace", "ada hopper", "lovelace-ada", "nobody", "risk", "id"])
def test_words_that_a_row_does_not_have_do_not_find_it(ended, text):
    ended("Ada-Lovelace")

    assert find(text) == []


def test_a_long_text_of_punctuation_costs_little():
    began = time.process_time()

    for text in ("a" + "!" * 200_000 + "a", ("." * 100_000 + " ") * 8):
        assert len(Wanted(ACME, text).pieces) <= 1

    assert time.process_time() - began < 1
    assert Wanted(ACME, "(Ada-Lovelace_) ... 'x'").pieces == ["Ada-Lovelace", "x"]


def test_open_transactions_are_found_by_any_part_of_their_texts(acme, ended):
    row = ended("Ada-Lovelace")
    waiting = propose(reference="Ada-Byron")

    assert find("ada") == [waiting, row]
    assert find("yro") == [waiting]
    assert find(state="prepared", text="ada") == [waiting]


def test_a_rejected_transaction_is_found_when_it_has_ended(acme, alice):
    row = propose(reference="Ada-Byron")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    execution.roll_back(row.pk)

    assert find("byron", state="aborted") == [Transaction.objects.get(pk=row.pk)]


def test_whole_values_find_what_has_them_and_no_more(ended):
    row = ended("Ada-Lovelace")
    ended(f"about-{row.short_id}")

    by_receipt = find(row.receipt)
    assert (by_receipt, find(str(row.pk)), find(str(row.pk)[:13])) == ([row], [row], [row])
    assert find(row.short_id) == [row]


def test_the_end_of_an_id_finds_what_is_open_too(acme):
    row = propose()

    assert find(row.short_id) == [row]


def test_nothing_of_another_tenant_is_found(ended):
    row = ended("Ada-Lovelace")

    for text in ("lovelace", row.receipt, row.short_id, str(row.pk)):
        assert find(text, tenants=frozenset({"globex"})) == []


def test_filters_narrow_a_search_down(ended):
    row = ended("Ada-Lovelace")

    assert find("ada", tool="pay", risk="HIGH", proposed_by="agent:acme/helpdesk") == [row]
    assert find(tool="pay", risk="HIGH") == [row]
    for other in ({"tool": "refund"}, {"risk": "LOW"}, {"state": "failed"}):
        assert find("ada", **other) == find(**other) == []
    assert find("ada", proposed_by="agent:acme/other") == []


def test_a_rare_state_leads_a_search_for_common_words(ended, aborted_among, monkeypatch):
    rare = aborted_among(6)
    # Fewer entries than the words have: led by a word, the first page would not reach the row.
    monkeypatch.setattr(search, "EXAMINED", 3)

    page = search.find(Wanted(ACME, "ada", tool="pay", state="aborted"), 2)

    assert page == Hits([rare])


def test_days_bound_a_search(ended):
    row, now = ended("Ada-Lovelace"), timezone.now()
    day = timedelta(days=1)

    assert find("ada", since=now - day, until=now + day) == [row]
    assert find(since=now - day, until=now + day) == [row]
    for since, until in ((now + day, None), (None, now - day)):
        assert find("ada", since=since, until=until) == find(since=since, until=until) == []


def test_pages_follow_each_other_without_a_gap(ended, acme):
    rows = [ended(f"Ada-{number}") for number in range(5)]
    rows.append(propose(reference="Ada-5"))
    pages, before = [], None
    while True:
        found = search.find(Wanted(ACME, "ada"), 2, before)
        pages.append(found.rows)
        before = found.next
        if before is None:
            break

    assert [len(page) for page in pages] == [2, 2, 2]
    assert [row.pk for page in pages for row in page] == [row.pk for row in reversed(rows)]


def test_a_page_that_would_cost_too_much_says_how_far_back_it_looked(ended, monkeypatch):
    monkeypatch.setattr(search, "EXAMINED", 3)
    wanted = ended("Ada-wanted", agent="other")
    newer = [ended(f"Ada-{number}") for number in range(4)]
    of_other = Wanted(ACME, "ada", proposed_by="agent:acme/other")

    first = search.find(of_other, 2)
    rest = search.find(of_other, 2, first.next)

    assert (first.rows, first.is_partial, first.next) == ([], True, newer[1].pk)
    assert first.searched_back_to
    assert abs(first.searched_back_to - newer[1].created_at) < timedelta(seconds=5)
    assert rest == Hits([wanted])


def test_too_many_beginnings_leave_the_whole_word(ended, monkeypatch):
    monkeypatch.setattr(search, "MOST_BEGINNINGS", 1)
    row = ended("order-bo")
    ended("order-bob")

    found = search.find(Wanted(ACME, "bo"), 50)

    assert (found.rows, found.cut) == ([row], ("bo",))


def test_the_words_of_erased_content_find_nothing(ended):
    row = ended("Ada-Lovelace", amount="77.00")
    assert find("77") == [row]
    end_retention(row.pk)

    retention.erase_due()

    assert find("77") == []
    assert not SearchTerm.objects.filter(term="77").exists()
    assert [found.pk for found in find("lovelace")] == [row.pk], "the operation key is kept"


@pytest.mark.parametrize("text", ["chloe", "Chloé", "1382", "1,382.50", "€1,382.50"])
def test_what_is_open_is_found_by_its_amount_and_by_names_without_accents(a_payment, text):
    row = a_payment()
    other = a_payment()
    Transaction.objects.filter(pk=row.pk).update(
        action_summary="Refund €1,382.50 to Chloé Noël", amount="1382.50"
    )
    Transaction.objects.filter(pk=other.pk).update(action_summary="Refund to Ana", amount="13.82")

    found = Transaction.objects.filter(search.contains(text))

    assert list(found) == [row]


@pytest.mark.parametrize("text", ["chloe", "Chloé", "1382"])
def test_what_ended_is_found_by_its_amount_and_by_names_without_accents(a_payment, alice, text):
    row = a_payment()
    Transaction.objects.filter(pk=row.pk).update(action_summary="Refund Chloé", amount="1382.50")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    Transaction.objects.filter(pk=row.pk).update(state="aborted")

    found = search.find(search.Wanted(frozenset({"acme"}), text), 10)

    assert [each.pk for each in found.rows] == [row.pk]


def test_what_ended_before_there_were_terms_is_found_once_they_are_rebuilt(ended, monkeypatch):
    monkeypatch.setattr(rebuild_search, "BATCH", 2)
    rows = [ended(f"Chloé-{number}") for number in range(3)]
    propose(reference="Ada-open")
    before = set(SearchTerm.objects.values_list("tenant", "term", "transaction_id"))
    SearchTerm.objects.all().delete()
    assert search.find(Wanted(ACME, "Chloe"), 10).rows == []

    call_command("rebuild_search", verbosity=0)
    call_command("rebuild_search", verbosity=0)

    assert search.find(Wanted(ACME, "Chloe"), 10).rows == rows[::-1]
    assert set(SearchTerm.objects.values_list("tenant", "term", "transaction_id")) == before


def test_rebuilding_brings_nothing_back_of_what_was_erased(ended):
    row = ended("Chloé-1")
    end_retention(row.pk)
    retention.erase_due()
    left = set(SearchTerm.objects.values_list("term", flat=True))

    call_command("rebuild_search", verbosity=0)

    assert Transaction.objects.get(pk=row.pk).content_erased_at is not None
    assert set(SearchTerm.objects.values_list("term", flat=True)) == left


def test_each_word_of_a_transaction_is_kept_once(ended):
    row = ended("Ada-Ada Chloé")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ledger_search_terms(tx) FROM ledger_transaction tx WHERE id = %s", [row.pk]
        )
        (terms,) = cursor.fetchone()

    assert len(terms) == len(set(terms)) > 5
