"""Money and numbers as people read them: in the formats they chose, else in those of the language.

Only how a number is written depends on this. What is signed, compared or sealed is a ``Decimal``,
or its words in English.
"""

from __future__ import annotations

import re
from decimal import Decimal

from babel import Locale, UnknownLocaleError
from babel.numbers import format_currency, format_decimal
from django.utils.translation import get_language, gettext as _

from approvals.http.preferences import chosen_formats
from ledger.models import Transaction
from ledger.reporting.usage import Range, Slip


def amount_written(amount: Decimal, currency: str) -> str:
    """``€48.20`` in English, ``48,20 €`` in German; behind the letters of a code a thin space."""
    text = format_currency(amount, currency, locale=reader_locale())
    return re.sub(r"([A-Za-z])(?=\d)", "\\1\u2009", text)


def number_written(number: float | Decimal, decimals: int | None = None) -> str:
    """``2,900`` in English, ``2.900`` in German; without ``decimals`` as many as it has."""
    pattern = None if decimals is None else "#,##0" + ("." + "0" * decimals if decimals else "")
    return format_decimal(
        Decimal(str(number)),
        pattern,
        locale=reader_locale(),
        decimal_quantization=pattern is not None,
    )


def reader_locale() -> Locale:
    """Babel's locale of the chosen formats, else of the active language; English without one."""
    return chosen_locale() or locale_named(get_language() or "en") or Locale("en")


def chosen_locale() -> Locale | None:
    """Babel's locale of the formats that the reader chose."""
    return locale_named(chosen_formats())


def locale_named(name: str) -> Locale | None:
    try:
        return Locale.parse(name, sep="-") if name else None
    except (UnknownLocaleError, ValueError):
        return None


def span_written(amounts: Range) -> str:
    """From the low to the high amount; whole ones without decimals: ``€12``."""
    low, high = (
        amount_in_short(amount, amounts.currency) for amount in (amounts.low, amounts.high)
    )
    return f"{low}–{high}"  # noqa: RUF001


def slip_in_words(slip: Slip, row: Transaction) -> str:
    """The number that an agent's words have in place of the amount, and the amount."""
    text = _("The summary says {number}, the amount is {amount}.")
    if slip.is_in_reason:
        text = _("The reason says {number}, the amount is {amount}.")
    return text.format(
        number=number_written(slip.number, slip.decimals),
        amount=amount_written(row.amount or Decimal(0), row.currency),
    )


def amount_in_short(amount: Decimal, currency: str) -> str:
    """A whole one without decimals: ``€12``."""
    locale = reader_locale()
    if amount != int(amount):
        return format_currency(amount, currency, locale=locale)
    pattern = locale.currency_formats["standard"].pattern.replace(".00", "")
    return format_currency(amount, currency, pattern, locale=locale, currency_digits=False)
