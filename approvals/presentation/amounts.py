"""Amounts of money as people read them: in the active language."""

from __future__ import annotations

import re
from decimal import Decimal

from babel import Locale, UnknownLocaleError
from babel.numbers import format_currency
from django.utils.translation import get_language


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
