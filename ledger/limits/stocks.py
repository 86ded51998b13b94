"""Caps on rows that are open at once: transactions, questions, tasks of one agent or tenant.

A cap is checked against a count that this process keeps in memory and reads anew from the database
after ``RECOUNT_S``, or once it has let in an eighth of what was left: the usual request pays
nothing. What is let in has a place until it is inserted. Of what a count left, each web process
lets in its part, so that all together stay within the cap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from django.conf import settings
from django.db import connection

from ledger.errors import LimitReached, Sentence
from ledger.foundation.bounded import Bounded
from ledger.limits import refusals, terms
from ledger.limits.terms import Limit, Of
from ledger.principals import Principal

RECOUNT_S = 5.0
# A full stock is counted again so often: somebody may have made room.
RECOUNT_FULL_S = 0.25
SHARE = 8


@dataclass(slots=True)
class _Level:
    """Level of one stock when it was counted, and what came since."""

    most: int = 0
    left: int = 0  # for this process, when it was counted
    at: float = float("-inf")
    since: int = 0  # let in since, those in flight included
    in_flight: int = 0  # let in, and perhaps not inserted yet

    @property
    def room(self) -> int:
        return self.left - self.since

    def is_stale(self, now: float) -> bool:
        """True if counting anew may tell more: what is in flight is counted already."""
        age, inserted = now - self.at, self.since - self.in_flight
        if self.room <= 0:
            return age > RECOUNT_FULL_S or inserted > 0
        return age > RECOUNT_S or inserted * SHARE >= self.left

    def recount(self, most: int, counted: int, now: float) -> None:
        self.most, self.at, self.since = most, now, self.in_flight
        self.left = math.ceil((most - counted) / settings.WEB_PROCESSES)


class Places:
    """Places that one request, or a batch of them, has taken until it is inserted."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._taken: list[_Level] = []

    def take(self, by: Principal, tenant: str) -> None:
        """Count one more row of this agent in this tenant. Raises ``LimitReached``."""
        if (full := self._take(by, tenant)) is not None:
            raise self._stock.refused(*full, by, tenant)

    def try_take(self, by: Principal, tenant: str) -> bool:
        """As ``take``, where another call of that will refuse: this one counts no refusal."""
        return self._take(by, tenant) is None

    def _take(self, by: Principal, tenant: str) -> tuple[Of, _Level] | None:
        """Count one more row, or return the level that has no room for it."""
        levels = [(of, self._stock.level(of, by, tenant)) for of in (Of.AGENT, Of.TENANT)]
        with self._stock.lock:
            full = next(((of, level) for of, level in levels if level.room <= 0), None)
            if full is None:
                for _, level in levels:
                    level.since += 1
                    level.in_flight += 1
                    self._taken.append(level)
        return full

    def give_back(self) -> None:
        """The rows are inserted, or never will be."""
        with self._stock.lock:
            for level in self._taken:
                level.in_flight -= 1


# Every stock, by what it limits; upper rooms add theirs.
every: dict[Limit, Stock] = {}


class Stock:
    """Rows of one kind that have not ended, in a table with a partial index on them.

    The names are SQL of ours, never input. The index is on ``(tenant, holder)``.
    """

    def __init__(self, limit: Limit, *, table: str, holder: str, is_open: str) -> None:
        self.limit = limit
        every[limit] = self
        self._of_agent = (
            f"SELECT count(*) FROM (SELECT FROM {table} WHERE tenant = %s AND {holder} = %s "
            f"AND {is_open} LIMIT %s) AS held"
        )
        self._of_tenant = (
            f"SELECT count(*) FROM (SELECT FROM {table} WHERE tenant = %s "
            f"AND {is_open} LIMIT %s) AS held"
        )
        self._by_agent = (
            f"SELECT tenant, {holder}, count(*) FROM {table} "
            f"WHERE tenant = ANY (%s) AND {is_open} GROUP BY 1, 2"
        )
        self._levels: Bounded[tuple[str, str], _Level] = Bounded(10_000)
        self.lock = Lock()

    @contextmanager
    def places(self) -> Iterator[Places]:
        """Places to take for rows that are planned and inserted within the block.

        Taking one needs a database connection now and then. A row that is not inserted after all
        is noticed at the next count.
        """
        places = Places(self)
        try:
            yield places
        finally:
            places.give_back()

    def check(self, by: Principal, tenant: str) -> None:
        """Raise ``LimitReached`` if there is no place, and take none."""
        for of in (Of.AGENT, Of.TENANT):
            level = self.level(of, by, tenant)
            if level.room <= 0:
                raise self.refused(of, level, by, tenant)

    def refused(self, of: Of, level: _Level, by: Principal, tenant: str) -> LimitReached:
        refusals.count(self.limit, of, tenant=tenant, agent=by.slug)
        return reached(self.limit, of, level.most)

    def level(self, of: Of, by: Principal, tenant: str) -> _Level:
        level = self._levels.setdefault((tenant, str(by) if of is Of.AGENT else ""), _Level())
        if level.is_stale(time.monotonic()):
            most, counted = self._count(of, by, tenant)
            with self.lock:
                level.recount(most, counted, time.monotonic())
        return level

    def _count(self, of: Of, by: Principal, tenant: str) -> tuple[int, int]:
        """The cap, and how many rows there are."""
        terms.refresh(tenant, by.slug if by.tenant == tenant else "")
        most = terms.most(self.limit, of, tenant, by.slug if by.tenant == tenant else "")
        with connection.cursor() as cursor:
            if of is Of.AGENT:
                cursor.execute(self._of_agent, [tenant, str(by), most])
            else:
                cursor.execute(self._of_tenant, [tenant, most])
            (counted,) = cursor.fetchone()
        return most, counted

    def held_by_agents(self, tenants: frozenset[str]) -> list[tuple[str, str, int]]:
        """Tenant, principal and number of every agent that has any."""
        with connection.cursor() as cursor:
            cursor.execute(self._by_agent, [sorted(tenants)])
            return list(cursor.fetchall())

    def forget(self) -> None:
        """For tests: count everything anew."""
        self._levels.clear()


def reached(limit: Limit, of: Of, most: int, wait_s: float = 0) -> LimitReached:
    """The refusal of a request that would exceed a limit; ``wait_s`` if it is known how long."""
    meaning = terms.MEANINGS[limit]
    return LimitReached(
        Sentence(
            "At most {most} {unit} per {of}.",
            most=f"{most:,}",
            unit=meaning.unit,
            of=of.label,
        ),
        retry_after_s=math.ceil(wait_s) or meaning.retry_s,
        limit=str(limit),
        of=str(of),
        most=most,
    )


pending = Stock(
    Limit.PENDING, table="ledger_transaction", holder="proposed_by", is_open="state = 'prepared'"
)
