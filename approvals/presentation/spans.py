"""Spans of time as people say them."""

from __future__ import annotations

from django.utils.translation import gettext as _

from approvals.presentation.amounts import number_written


def span_of(seconds: float | None) -> str:
    """``8 s``, ``2.2 min``, ``1.5 h``; empty of nothing."""
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
    number = round(number, 1 if number < 10 else 0)
    return number_written(number, 0 if number.is_integer() else 1)
