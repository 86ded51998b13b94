"""Agreement of people with supervising agents, each by its name."""

from __future__ import annotations

from collections.abc import Iterable

from approvals.people import names_of
from ledger.models import Agreement, Review


def agreement_in(tenants: Iterable[str]) -> list[tuple[str, Agreement]]:
    """The name of each supervisor of these tenants, with how often people agreed with it."""
    rates = Review.objects.filter(tenant__in=tenants).agreement()
    names = names_of(rate.agent for rate in rates)
    return list(zip(names, rates, strict=True))
