"""What is typed to confirm what cannot be undone: strict about the number, kind about its form."""

from __future__ import annotations

from decimal import Decimal

import pytest
from babel.numbers import format_currency, format_decimal
from django.utils import translation

from approvals.desk import policies
from approvals.desk.strength import confirmations

LOCALES = ("en_US", "en_GB", "en_IN", "de_DE", "de_CH", "fr_FR", "it_CH", "sv_SE", "ja_JP", "ar_EG")


@pytest.mark.parametrize(
    ("typed", "amount", "currency"),
    [
        ("125000", "125000", "EUR"),
        ("125,000", "125000", "EUR"),
        ("125.000", "125000", "EUR"),
        ("125'000.00", "125000", "EUR"),
        ("125 000,00", "125000", "EUR"),
        ("€125,000.00", "125000", "EUR"),
        ("125000.00 eur", "125000", "EUR"),
        ("EUR 125.000,00", "125000", "EUR"),
        ("1,234,567.89", "1234567.89", "USD"),
        ("48.2", "48.20", "EUR"),
        ("18400", "18400", "JPY"),
        ("18,400.00", "18400", "JPY"),
        ("BHD12,345.678", "12345.678", "BHD"),
        ("12,345", "12345", "BHD"),
        ("12.345", "12.345", "BHD"),
        ("١٢٥٠٠٠", "125000", "EUR"),
    ],
)
def test_an_amount_may_be_typed_in_any_grouping_with_or_without_its_sign(typed, amount, currency):
    assert confirmations.is_amount(typed, Decimal(amount), currency)


@pytest.mark.parametrize(
    ("typed", "amount", "currency"),
    [
        ("", "0", "EUR"),
        ("€", "125000", "EUR"),
        ("12500", "125000", "EUR"),
        ("1250000", "125000", "EUR"),
        ("125,00", "125000", "EUR"),
        ("125.00", "125000", "EUR"),
        ("125,000.01", "125000", "EUR"),
        ("12,5000", "125000", "EUR"),
        ("1,2,5000", "125000", "EUR"),
        ("125,000,00", "125000", "EUR"),
        ("$125,000", "125000", "EUR"),
        ("USD 125000", "125000", "EUR"),
        ("-125000", "125000", "EUR"),
        ("125e3", "125000", "EUR"),
        ("125000 please", "125000", "EUR"),
        ("12.345", "12345", "BHD"),
        ("12,345", "12.345", "BHD"),
    ],
)
def test_another_number_or_currency_confirms_nothing(typed, amount, currency):
    assert not confirmations.is_amount(typed, Decimal(amount), currency)


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("amount", ["125000", "1234.56", "0.99", "9999999.10"])
def test_an_amount_typed_as_any_locale_writes_it_counts(locale, amount):
    number = Decimal(amount)
    with translation.override(locale.partition("_")[0]):
        assert confirmations.is_amount(format_decimal(number, locale=locale), number, "EUR")
        written = format_currency(number, "EUR", locale=locale).replace("\u200f", "")
        assert confirmations.is_amount(written, number, "EUR"), written


def test_the_name_of_the_target_is_asked_for_where_the_summary_has_one(a_transaction):
    row = a_transaction("launch", rocket="r1")
    row.action_summary = "Launch Ariane (r1, large, Kourou) for good"

    assert confirmations.confirmation_word(row) == "Ariane"
    assert confirmations.is_confirmed(" ARIANE ", row)
    assert confirmations.is_confirmed("r1", row)
    assert not confirmations.is_confirmed("Launch", row)
    assert not confirmations.is_confirmed("", row)


def test_without_a_name_in_the_summary_the_id_is_asked_for(a_transaction):
    row = a_transaction("launch", rocket="Vega")
    row.action_summary = "Launch something (Vegan) else (Vega2)"

    assert confirmations.confirmation_word(row) == "Vega"


@pytest.mark.parametrize(
    ("amount", "currency", "english", "german"),
    [
        ("48.20", "EUR", "€48.20", "48,20\u00a0€"),
        ("125000", "CHF", "CHF\u2009125,000.00", "125.000,00\u00a0CHF"),
        ("12.345", "BHD", "BHD\u200912.345", "12,345\u00a0BHD"),
    ],
)
def test_an_amount_is_written_in_the_readers_language_and_confirmed_as_it_is_asked_for(
    a_transaction, amount, currency, english, german
):
    row = a_transaction("launch", rocket="r1")
    row.amount, row.currency = Decimal(amount), currency

    for language, shown in (("en", english), ("de", german)):
        with translation.override(language):
            assert policies.money(row) == shown
            assert confirmations.is_confirmed(confirmations.confirmation_word(row), row)
            assert confirmations.word_for_machines(row) == english.replace("\u2009", "")


@pytest.mark.parametrize(
    ("typed", "seems"),
    [("125000", True), ("€125,000.00", True), ("125.000", True), ("1250", False), ("", False)],
)
def test_a_surface_that_knows_the_word_only_accepts_what_may_be_a_spelling_of_it(typed, seems):
    assert confirmations.seems_confirmed(typed, "€125,000.00") is seems
