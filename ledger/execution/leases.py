"""A worker's lease on a transaction: until when it is good, and how it is renewed."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import F, Q
from django.db.models.functions import Now

from ledger import states
from ledger.contracts import Context, Tool
from ledger.foundation.postgres import (
    Statement,
    arrays_of,
    compile_once,
    of_each,
    unlocked,
    use_prepared_statements,
    wanted_sql,
)
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.models import Transaction
from ledger.seals import Link
from ledger.tools import tool_of
from ledger.transactions.transitions import WorkColumns

logger = logging.getLogger(__name__)

# CLOCK_BOOTTIME also advances while the machine is suspended; not every kernel has it.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds of a clock that is never set back or forward."""
    return time.clock_gettime(_CLOCK)


def new_lease() -> WorkColumns:
    """The columns of a claim: a higher fencing token, one more attempt, a lease of ``LEASE_S``."""
    return WorkColumns(
        fencing_token=F("fencing_token") + 1,
        attempts=F("attempts") + 1,
        lease_expires_at=Now() + timedelta(seconds=settings.LEASE_S),
        next_attempt_at=None,
    )


@dataclass(slots=True)
class Lease:
    """One worker's claim on one transaction, good while the row has this fencing token.

    ``began`` is when the claim was sent, by this process's clock: the lease lasts ``LEASE_S`` from
    then on at least. ``links`` is the row's chain as the claim left it, where the claim read it.
    """

    row: Transaction
    fencing_token: int
    began: float = field(default_factory=clock)
    links: Sequence[Link] | None = None
    good_until: float = field(init=False)

    def __post_init__(self) -> None:
        self.good_until = self.began + settings.LEASE_S

    @property
    def holds(self) -> Q:
        """True of the row while no other worker has claimed it since."""
        return Q(fencing_token=self.fencing_token)

    @property
    def is_first(self) -> bool:
        """No other worker can have called the tool: every claim raises the fencing token."""
        return self.fencing_token == 1

    @property
    def tool(self) -> Tool[Any, Any] | None:
        """``None`` if the tool is not deployed in this process."""
        return tool_of(self.row)

    def context(self, *, is_leased: bool = True) -> Context:
        row = self.row
        left = timedelta(seconds=self.good_until - clock())
        return Context(
            transaction_id=row.pk,
            tenant=row.tenant,
            operation_key=row.operation_key,
            timeout=self.tool.contract.call_timeout if self.tool else timedelta(seconds=30),
            held=row.held,
            receipt=row.receipt,
            result=row.result or {},
            attempt=row.fencing_token,
            lease_until=datetime.now(UTC) + left if is_leased else None,
        )

    def is_good(self) -> bool:
        """True if no other worker can have claimed the row. Renews a lease that has run out."""
        return clock() < self.good_until or self.renew()

    def renew(self) -> bool:
        """Extend the lease by ``LEASE_S``; ``False`` if it is lost or the database is away.

        A database that is away for a moment only costs this renewal.
        """
        began = clock()
        try:
            is_renewed = self.row.pk in _renewed([self], skip_locked=False)
        except CONNECTION_LOST as failure:
            logger.warning("the lease on %s could not be renewed: %s", self.row.pk, failure)
            connection.close()
            return False
        if is_renewed:
            self.good_until = began + settings.LEASE_S
        return clock() < self.good_until


def renew_all(leases: Sequence[Lease]) -> None:
    """Extend these leases by ``LEASE_S``, but for those that are lost or whose row is locked.

    Raises ``DatabaseError``.
    """
    began = clock()
    renewed = _renewed(leases, skip_locked=True)
    for lease in leases:
        if lease.row.pk in renewed:
            lease.good_until = began + settings.LEASE_S


def until_renewal() -> float:
    """Seconds from one renewal of a lease to the next."""
    return settings.LEASE_S / 3


def _renewed(leases: Sequence[Lease], *, skip_locked: bool) -> set[UUID]:
    statement = _renewal(settings.LEASE_S)
    tables, update = [wanted_sql(statement.own)], statement.sql
    if skip_locked:
        locked, update = unlocked(update, Transaction._meta.db_table)
        tables.append(locked)
    sql = f"WITH {', '.join(tables)} {update} RETURNING ledger_transaction.id"
    values = [{"id": each.row.pk, "fencing_token": each.fencing_token} for each in leases]
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(sql, [*arrays_of(values, statement.own), *statement.parameters])
        return {row_id for (row_id,) in cursor.fetchall()}


@lru_cache(maxsize=8)
def _renewal(lease_s: float) -> Statement:
    own = {"pk": of_each("id"), "fencing_token": of_each("fencing_token")}
    held = Transaction.objects.filter(**own, state__in=states.AT_WORK)
    expiry = Now() + timedelta(seconds=lease_s)
    return compile_once(held, {"fencing_token": "integer"}, lease_expires_at=expiry)
