"""Totals of the transactions of a search, per currency; bounded, so that they cost little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from babel.numbers import format_currency
from django.db.models import Count, Sum

from approvals.presentation import reader_locale
from ledger.models import Transaction
from ledger.reporting import search

MOST = 1_000  # transactions that are added up
PAGE, PAGES = 500, 2  # where the words of the search have to be looked up
ADDED_UP = ("currency", "amount")


@dataclass(frozen=True, slots=True)
class Totals:
    """Amounts as people write them, and of how many transactions they are."""

    number: int
    amounts: list[str]
    is_partial: bool = False


def totals_of(wanted: search.Wanted) -> Totals:
    """The sums over the whole list, not only over the page."""
    if wanted.by_terms:
        return _of_matches(wanted)
    newest = search.filtered(wanted).order_by("-pk").values("pk")[:MOST]
    sums = (
        Transaction.objects.filter(pk__in=newest)
        .order_by()
        .values_list("currency")
        .annotate(amount=Sum("amount"), number=Count("pk"))
    )
    rows = list(sums)
    number = sum(count for _, _, count in rows)
    amounts = {currency: amount for currency, amount, _ in rows if currency}
    return Totals(number, list(_written(amounts)), number >= MOST)


def _of_matches(wanted: search.Wanted) -> Totals:
    sums: Counter[str] = Counter()
    number, before = 0, None
    for _ in range(PAGES):
        matches = search.find(wanted, PAGE, before, only=ADDED_UP)
        number += len(matches.rows)
        for row in matches.rows:
            if row.amount is not None:
                sums[row.currency] += row.amount  # type: ignore[assignment]
        before = matches.next
        if before is None:
            break
    return Totals(number, list(_written(dict(sums))), before is not None)  # type: ignore[arg-type]


def _written(amounts: dict[str, Decimal]) -> Iterator[str]:
    for currency, amount in sorted(amounts.items(), key=lambda pair: -pair[1]):
        yield format_currency(amount, currency, locale=reader_locale())
