"""Amounts of money as people read them: in the active language."""

from __future__ import annotations

import re
from decimal import Decimal

from babel import Locale, UnknownLocaleError
from babel.numbers import format_currency
from django.utils.translation import get_language

from ledger.usage.usual import Range


def written(amount: Decimal, currency: str) -> str:
    """``€48.20`` in English, ``48,20 €`` in German; behind the letters of a code a thin space."""
    text = format_currency(amount, currency, locale=reader_locale())
    return re.sub(r"([A-Za-z])(?=\d)", "\\1\u2009", text)


def reader_locale() -> Locale:
    """Babel's locale of the active language; English where there is none."""
    try:
        return Locale.parse(get_language() or "en", sep="-")
    except (UnknownLocaleError, ValueError):
        return Locale("en")


def span(amounts: Range) -> str:
    """From the low to the high amount; whole ones without decimals: ``€12``."""
    low, high = (_short(one, amounts.currency) for one in (amounts.low, amounts.high))
    return f"{low}–{high}"  # noqa: RUF001


def _short(amount: Decimal, currency: str) -> str:
    locale = reader_locale()
    if amount != int(amount):
        return format_currency(amount, currency, locale=locale)
    pattern = locale.currency_formats["standard"].pattern.replace(".00", "")
    return format_currency(amount, currency, pattern, locale=locale, currency_digits=False)
