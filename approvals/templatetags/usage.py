"""Template filters of figures: ranges of money."""

from __future__ import annotations

from django import template

from approvals.presentation import amounts

register = template.Library()
register.filter("money_range", amounts.span)
