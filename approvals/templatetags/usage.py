"""Template filters of figures: ranges of money, and a number in place of an amount."""

from __future__ import annotations

from django import template

from approvals.presentation import slip_in_words, span_written

register = template.Library()
register.filter("money_range", span_written)
register.filter("slip_in_words", slip_in_words)
