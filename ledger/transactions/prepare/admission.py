"""Admission of a request: the facts the ledger has about it already, one request at a time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from ledger.errors import InProgress
from ledger.foundation.postgres import use_prepared_statements
from ledger.models import LIVE_GRANT_SQL, STANDING_SQL
from ledger.states import WITHOUT_EFFECT
from ledger.transactions.prepare.proposals import PREPARE_ROUTE, Request

TRY_EVERY_S = 0.2  # for the lock of an operation that somebody else plans
INSERT_TIME = timedelta(seconds=15)  # after a plan, for what it leads to


@dataclass(frozen=True, slots=True)
class Admission:
    """Facts the database has about a request when it arrives, and its clock then."""

    now: datetime
    key_hash: str | None
    key_transaction_id: UUID | None
    key_status: int | None
    key_answer: str | None
    holder_id: UUID | None
    late_id: UUID | None
    rule_set: int
    zone: str  # of the tenant's budgets
    has_grants: bool
    is_kept: bool | None  # by every brake that stands over it; ``None`` if there is none


# The states are literals, not parameters: a prepared statement with parameters could not use the
# partial index ``ledger_tx_one_per_operation``.
_FACTS = f"""
    SELECT clock_timestamp(), k.payload_hash, k.transaction_id, k.status, k.answer, t.id,
           (SELECT late.id FROM ledger_transaction late
            WHERE late.tenant = %(tenant)s AND late.operation_key = %(operation_key)s
                AND late.late_receipt <> '' LIMIT 1),
           coalesce(tenant.rule_set, 0), coalesce(tenant.time_zone, 'UTC'),
           EXISTS ({LIVE_GRANT_SQL.format("%(tenant)s", "%(agent)s", "%(tool)s")}),
           (SELECT bool_and(brake.keeps) FROM ledger_brake brake
            WHERE {STANDING_SQL}
                AND brake.tenant IN ('', %(tenant)s) AND brake.agent IN ('', %(agent)s)
                AND brake.tool IN ('', %(tool)s))
    FROM (SELECT) AS request
    LEFT JOIN ledger_tenant tenant ON tenant.slug = %(tenant)s
    LEFT JOIN ledger_idempotencykey k
        ON k.agent = %(agent)s AND k.route = %(route)s AND k.key = %(key)s
    LEFT JOIN ledger_transaction t
        ON t.tenant = %(tenant)s AND t.operation_key = %(operation_key)s
        AND t.state NOT IN ({", ".join(f"'{state}'" for state in sorted(WITHOUT_EFFECT))})
"""


@contextmanager
def admitted(request: Request) -> Iterator[Admission]:
    """Admit one request at a time per key and per operation, while it plans.

    Raises ``InProgress`` while another request plans one of them.
    """
    with _locked(*locks_of(request), lasts=request.tool.contract.call_timeout + INSERT_TIME):
        yield _facts_of(request)


def _facts_of(request: Request) -> Admission:
    parameters: dict[str, Any] = {
        "agent": str(request.by),
        "route": PREPARE_ROUTE,
        "key": request.key,
        "tenant": request.tenant,
        "operation_key": request.operation_key,
        "tool": request.tool.name,
    }
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_FACTS, parameters)
        return Admission(*cursor.fetchone())


@contextmanager
def operation_locked(tenant: str, operation_key: str, wait: timedelta) -> Iterator[None]:
    """Exclude every request for the operation, after those that plan it now.

    Raises ``InProgress`` after ``wait``. Without an operation key there is nobody to exclude.
    """
    if not operation_key:
        yield
        return
    deadline = time.monotonic() + wait.total_seconds()
    with _locked(lock_of(tenant, operation_key), lasts=wait + INSERT_TIME, deadline=deadline):
        yield


@contextmanager
def _locked(*locks: int, lasts: timedelta, deadline: float = 0.0) -> Iterator[None]:
    """Hold these advisory locks. Raises ``InProgress`` when the ``deadline`` is over.

    They are those of a database transaction that does nothing else, in a session of its own: it
    outlives a failure of the thread's connection, ends with the process, and lets a pooler share
    all other sessions. PostgreSQL ends it if it ``lasts`` longer.
    """
    session = connection.copy()
    try:
        _take(session, locks, lasts, deadline)
        yield
    finally:
        _end(session)


def _take(
    session: BaseDatabaseWrapper, locks: Collection[int], lasts: timedelta, deadline: float
) -> None:
    """Has no session of PostgreSQL between two tries."""
    while True:
        try:
            if _are_taken(session, locks, lasts):
                return
        except (OperationalError, InterfaceError):
            if not deadline:
                raise
        _end(session)
        if time.monotonic() > deadline:
            raise InProgress()
        time.sleep(TRY_EVERY_S)


def _are_taken(session: BaseDatabaseWrapper, locks: Collection[int], lasts: timedelta) -> bool:
    """In one round trip: numbers alone stand in the text."""
    milliseconds = lasts // timedelta(milliseconds=1)
    tries = ", ".join(f"pg_try_advisory_xact_lock({lock:d})" for lock in sorted(set(locks)))
    with session.cursor() as cursor:
        cursor.execute(
            f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {milliseconds:d};"
            f" SELECT ARRAY[{tries}]"
        )
        while cursor.nextset():
            pass
        return all(cursor.fetchone()[0])


def _end(session: BaseDatabaseWrapper) -> None:
    """Release the locks. PostgreSQL has done so already if the session is gone."""
    with suppress(OperationalError, InterfaceError):
        if session.connection is not None:
            with session.cursor() as cursor:
                cursor.execute("ROLLBACK")
    session.close()


def locks_of(request: Request) -> tuple[int, int]:
    """The advisory locks of a request and of its operation.

    Without an operation key there is nothing to exclude but the same request.
    """
    key_lock = lock_of(str(request.by), PREPARE_ROUTE, request.key)
    if not request.operation_key:
        return key_lock, key_lock
    return key_lock, lock_of(request.tenant, request.operation_key)


def lock_of(*parts: str) -> int:
    """The advisory lock of a request (agent, route, key) or of an operation (tenant, its key)."""
    digest = hashlib.sha256("\x1f".join(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
