"""Dates, numbers and money are written as a person chose; what is signed never is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone, translation

from approvals.desk import policies
from approvals.desk.strength import confirmations
from approvals.http.preferences import formats_of
from approvals.insight import charts
from approvals.models import Preferences
from approvals.presentation import amounts, times
from approvals.web.account.account import FORMATS

AMOUNTS = [("1234.50", "CHF"), ("125000", "EUR"), ("1234", "JPY"), ("12.345", "BHD")]


@pytest.mark.parametrize(
    ("formats", "shown"),
    [
        ("", "CHF\u20091,234.50"),
        ("en-GB", "CHF\u20091,234.50"),
        ("de-CH", "CHF\u00a01\u2019234.50"),
        ("de-DE", "1.234,50\u00a0CHF"),
    ],
)
def test_a_page_writes_money_in_the_formats_of_its_reader(
    as_alice, alice_user, a_payment, formats, shown
):
    Preferences.objects.create(user=alice_user, language="en", formats=formats)
    row = a_payment()
    type(row).objects.filter(pk=row.pk).update(amount=Decimal("1234.50"), currency="CHF")

    page = as_alice.get(reverse("desk:transaction", args=[row.pk])).content.decode()

    assert shown in page


def test_numbers_and_spans_are_written_in_the_formats_of_the_reader():
    written = {}
    for formats in ("", "de-DE", "de-CH"):
        with formats_of(formats):
            written[formats] = (charts.grouped(2900), times.span_of(5400), times.span_of(132))

    assert written == {
        "": ("2,900", "1.5 h", "2.2 min"),
        "de-DE": ("2.900", "1,5 h", "2,2 min"),
        "de-CH": ("2\u2019900", "1.5 h", "2.2 min"),
    }


def test_days_are_written_in_the_formats_of_the_reader():
    at = datetime(2024, 9, 14, 21, 32, tzinfo=UTC)
    with formats_of("de-DE"), timezone.override(UTC):
        assert times.absolute(at) == "Sa., 14. Sept. 2024, 21:32"
        assert times.day_of_month(date(2026, 3, 4)) == "4. März"
    with formats_of("en-US"), timezone.override(UTC):
        assert times.absolute(at).replace("\u202f", " ") == "Sat, Sep 14, 2024, 9:32 PM"
    with timezone.override(UTC):
        assert times.absolute(timezone.now() - timedelta(days=800)).endswith(
            f"{timezone.now() - timedelta(days=800):%H:%M}"
        )


@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize(("amount", "currency"), AMOUNTS)
@pytest.mark.parametrize("language", ["en", "de"])
def test_whoever_types_an_amount_as_they_read_it_is_understood(
    a_transaction, formats, amount, currency, language
):
    row = a_transaction("launch", rocket="r1")
    row.amount, row.currency = Decimal(amount), currency
    for_machines = confirmations.word_for_machines(row)

    with translation.override(language), formats_of(formats):
        word = confirmations.confirmation_word(row)
        assert confirmations.is_confirmed(word, row)
        assert confirmations.is_confirmed(f"  {word} ", row)
        assert not confirmations.is_confirmed(word.replace("2", "3"), row)
        assert confirmations.word_for_machines(row) == for_machines


def test_the_formats_of_one_reader_end_with_their_page(as_alice, alice_user, a_payment):
    Preferences.objects.create(user=alice_user, formats="de-DE")

    as_alice.get("/")

    assert amounts.amount_written(Decimal("1234.50"), "EUR") == "€1,234.50"


def test_who_chose_formats_that_do_not_exist_reads_those_of_the_language():
    with formats_of("xx-YY"):
        assert amounts.amount_written(Decimal("1234.50"), "EUR") == "€1,234.50"


def test_the_account_page_says_what_each_of_the_formats_looks_like(as_alice):
    page = as_alice.get(reverse("desk:account")).content.decode()

    assert "de-CH · CHF\u00a01\u2019234.50" in page
    assert "de-DE · 1.234,50\u00a0CHF" in page


def test_a_tenants_money_is_grouped_by_policies_as_everywhere(a_transaction):
    row = a_transaction("launch", rocket="r1")
    row.amount, row.currency = Decimal("1234.50"), "EUR"

    with formats_of("de-AT"):
        assert policies.money(row) == "€\u00a01.234,50"
