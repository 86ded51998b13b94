"""Template filters of figures: ranges of money, spans of time."""

from __future__ import annotations

from decimal import Decimal

from babel import Locale, UnknownLocaleError
from babel.numbers import format_currency
from django import template
from django.utils.translation import get_language, gettext as _

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


@register.filter
def span_of(seconds: float | None) -> str:
    """A time to decide, as people say it: ``8 s``, ``2.2 min``, ``1.5 h``."""
    if seconds is None:
        return ""
    if seconds < 59.5:
        return _("%(number)s s") % {"number": round(seconds)}
    if seconds < 3570:
        return _("%(number)s min") % {"number": _one_digit(seconds / 60)}
    if seconds < 86_400:
        return _("%(number)s h") % {"number": _one_digit(seconds / 3600)}
    return _("%(number)s d") % {"number": _one_digit(seconds / 86_400)}


def _one_digit(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:.0f}"
