"""Template filters of figures: ranges of money."""

from __future__ import annotations

from decimal import Decimal

from babel import Locale, UnknownLocaleError
from babel.numbers import format_currency
from django import template
from django.utils.translation import get_language

from ledger.usage.usual import Range

register = template.Library()


@register.filter
def money_range(amounts: Range) -> str:
    """From the low to the high amount; whole ones without decimals: ``€12``."""
    low, high = (_short(one, amounts.currency) for one in (amounts.low, amounts.high))
    return f"{low}–{high}"  # noqa: RUF001


def _short(amount: Decimal, currency: str) -> str:
    locale = _locale()
    if amount != int(amount):
        return format_currency(amount, currency, locale=locale)
    pattern = locale.currency_formats["standard"].pattern.replace(".00", "")
    return format_currency(amount, currency, pattern, locale=locale, currency_digits=False)


def _locale() -> Locale:
    try:
        return Locale.parse(get_language() or "en", sep="-")
    except (UnknownLocaleError, ValueError):
        return Locale("en")
