"""One page of a list, newest first, continued after the last row of the page before (keyset).

Unlike an offset, that is quick at any depth, and rows that are added meanwhile shift nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, Q, QuerySet

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """``last`` is the row after which the next page begins; ``None`` at the end of the list."""

    rows: list[M]
    last: M | None

    @property
    def cursor(self) -> Any:
        """The primary key of ``last``, where the list is ordered by it alone."""
        return self.last.pk if self.last is not None else None


def keyset_page(
    rows: QuerySet[M],
    limit: int,
    *,
    before: Sequence[Any] | None = None,
    by: Sequence[str] = ("pk",),
    any_of: Sequence[Q] = (),
) -> Page[M]:
    """At most ``limit`` rows, in descending order of the fields ``by`` (unique together).

    ``before`` has their values in the last row of the page before; ``None`` asks for the first.
    Of ``any_of`` rows have to meet one condition, and each condition is read by an index of its
    own; PostgreSQL would read their OR by none. The last field is the primary key then.
    """
    if before is not None:
        rows = rows.filter(_before(dict(zip(by, before, strict=True))))
    order = [f"-{field}" for field in by]
    if any_of:
        places = _first_of_each(rows.order_by(*order).values_list(*by), any_of, limit + 1)
        # As a list: PostgreSQL may read any number of rows to find those of a subquery in order.
        newest = sorted(places, reverse=True)[: limit + 1]
        rows = rows.filter(pk__in=[place[-1] for place in newest])
    fetched = list(rows.order_by(*order)[: limit + 1])
    page = fetched[:limit]
    return Page(page, page[-1] if len(fetched) > limit else None)


def count_any_of(rows: QuerySet[M], any_of: Sequence[Q], most: int, *, by: Sequence[str]) -> int:
    """Number of rows that meet one of the conditions, counted no further than ``most``.

    They are counted in the indexes of ``by``; without an order PostgreSQL may read any rows.
    """
    order = [f"-{field}" for field in by]
    matches = _first_of_each(rows.order_by(*order).values_list(*by), any_of, most)
    return int(matches[:most].count())


def _first_of_each(rows: Any, any_of: Sequence[Q], most: int) -> Any:
    first, *others = (rows.filter(each)[:most] for each in any_of)
    return first.union(*others)


def _before(last: dict[str, Any]) -> Q:
    """The order of tuples: a smaller first field, or the same one and a smaller second, ..."""
    condition, same = Q(), Q()
    for field, value in last.items():
        condition |= same & Q(**{f"{field}__lt": value})
        same &= Q(**{field: value})
    # Follows from the condition, and is what PostgreSQL can begin to read an index at.
    first = next(iter(last))
    return condition & Q(**{f"{first}__lte": last[first]})
