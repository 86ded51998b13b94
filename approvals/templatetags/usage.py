"""Template filters of figures: ranges of money."""

from __future__ import annotations

from decimal import Decimal

from babel.numbers import format_currency
from django import template

from approvals.presentation.amounts import reader_locale
from ledger.usage.usual import Range

register = template.Library()


@register.filter
def money_range(amounts: Range) -> str:
    """From the low to the high amount; whole ones without decimals: ``€12``."""
    low, high = (_short(one, amounts.currency) for one in (amounts.low, amounts.high))
    return f"{low}–{high}"  # noqa: RUF001


def _short(amount: Decimal, currency: str) -> str:
    locale = reader_locale()
    if amount != int(amount):
        return format_currency(amount, currency, locale=locale)
    pattern = locale.currency_formats["standard"].pattern.replace(".00", "")
    return format_currency(amount, currency, pattern, locale=locale, currency_digits=False)
