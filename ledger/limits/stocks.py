"""Caps on rows that are open at once: transactions, questions, tasks of one agent or tenant.

A cap is checked against a count that this process keeps in memory and reads anew from the database
after ``RECOUNT_S``, or once it has let in an eighth of what was left. So the usual request pays
nothing, and up to eight processes together stay within the cap, but for the requests that are in
flight at the same moment.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from threading import Lock

from django.db import connection

from ledger.errors import LimitReached
from ledger.limits import refusals, terms
from ledger.limits.bounded import Bounded
from ledger.limits.terms import Limit, Of
from ledger.principals import Principal

RECOUNT_S = 5.0
# A full stock is counted again so often: somebody may have made room.
RECOUNT_FULL_S = 0.25
SHARE = 8


@dataclass(slots=True)
class _Level:
    """How full one stock was when it was counted, and what came since."""

    counted: int
    most: int
    at: float
    since: int = 0

    @property
    def room(self) -> int:
        return self.most - self.counted - self.since

    def is_stale(self, now: float) -> bool:
        age = now - self.at
        if self.room <= 0:
            return age > RECOUNT_FULL_S or self.since > 0
        return age > RECOUNT_S or self.since * SHARE >= self.most - self.counted


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
        self._lock = Lock()

    def admit(self, by: Principal, tenant: str) -> None:
        """Count one more row of this agent in this tenant. Raises ``LimitReached``.

        Call it right before the row is inserted (or planned); needs a database connection now and
        then. A row that is not inserted after all is noticed at the next count.
        """
        if (full := self._take(by, tenant)) is not None:
            raise self._refused(*full, by, tenant)

    def try_admit(self, by: Principal, tenant: str) -> bool:
        """As ``admit``, where another call of that will refuse: this one counts no refusal."""
        return self._take(by, tenant) is None

    def _take(self, by: Principal, tenant: str) -> tuple[Of, _Level] | None:
        """Count one more row, or return the level that has no room for it."""
        levels = [(of, self._level(of, by, tenant)) for of in (Of.AGENT, Of.TENANT)]
        with self._lock:
            full = next(((of, level) for of, level in levels if level.room <= 0), None)
            if full is None:
                for _, level in levels:
                    level.since += 1
        return full

    def check(self, by: Principal, tenant: str) -> None:
        """Raise ``LimitReached`` if ``admit`` would, and count nothing."""
        for of in (Of.AGENT, Of.TENANT):
            level = self._level(of, by, tenant)
            if level.room <= 0:
                raise self._refused(of, level, by, tenant)

    def _refused(self, of: Of, level: _Level, by: Principal, tenant: str) -> LimitReached:
        refusals.count(self.limit, of, tenant=tenant, agent=by.slug)
        return reached(self.limit, of, level.most)

    def _level(self, of: Of, by: Principal, tenant: str) -> _Level:
        key = (tenant, str(by) if of is Of.AGENT else "")
        level = self._levels.get(key)
        if level is None or level.is_stale(time.monotonic()):
            level = self._counted(of, by, tenant)
            self._levels.put(key, level)
        return level

    def _counted(self, of: Of, by: Principal, tenant: str) -> _Level:
        terms.refresh(tenant, by.slug if by.tenant == tenant else "")
        most = terms.most(self.limit, of, tenant, by.slug if by.tenant == tenant else "")
        with connection.cursor() as cursor:
            if of is Of.AGENT:
                cursor.execute(self._of_agent, [tenant, str(by), most])
            else:
                cursor.execute(self._of_tenant, [tenant, most])
            (counted,) = cursor.fetchone()
        return _Level(counted, most, time.monotonic())

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
        f"At most {most:,} {meaning.unit} per {of}.",
        retry_after_s=math.ceil(wait_s) or meaning.retry_s,
        limit=str(limit),
        of=str(of),
        most=most,
    )


pending = Stock(
    Limit.PENDING, table="ledger_transaction", holder="proposed_by", is_open="state = 'prepared'"
)
