"""Template filters of figures: ranges of money."""

from __future__ import annotations

from django import template

from approvals.presentation import span_written

register = template.Library()
register.filter("money_range", span_written)
