"""Admission of a request: the facts the ledger has about it already, one request at a time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from ledger.errors import InProgress
from ledger.foundation.postgres import use_prepared_statements
from ledger.states import WITHOUT_EFFECT
from ledger.transactions.prepare.proposals import PREPARE_ROUTE, Request

TRY_EVERY_S = 0.2  # for the lock of an operation that somebody else plans


@dataclass(slots=True)
class Admission:
    """Facts the database has about a request when it arrives, and its clock then."""

    locks: list[int]
    now: datetime
    key_hash: str | None
    key_transaction_id: UUID | None
    key_status: int | None
    key_answer: str | None
    holder_id: UUID | None
    late_id: UUID | None
    is_over: bool = False


# The states are literals, not parameters: a prepared statement with parameters could not use the
# partial index ``ledger_tx_one_per_operation``.
_ADMIT = f"""
    SELECT pg_try_advisory_lock(%(key_lock)s::bigint),
           pg_try_advisory_lock(%(operation_lock)s::bigint),
           clock_timestamp(), k.payload_hash, k.transaction_id, k.status, k.answer,
           t.id,
           (SELECT late.id FROM ledger_transaction late
            WHERE late.tenant = %(tenant)s AND late.operation_key = %(operation_key)s
                AND late.late_receipt <> '' LIMIT 1)
    FROM (SELECT) AS request
    LEFT JOIN ledger_idempotencykey k
        ON k.agent = %(agent)s AND k.route = %(route)s AND k.key = %(key)s
    LEFT JOIN ledger_transaction t
        ON t.tenant = %(tenant)s AND t.operation_key = %(operation_key)s
        AND t.state NOT IN ({", ".join(f"'{state}'" for state in sorted(WITHOUT_EFFECT))})
"""


@contextmanager
def admitted(request: Request) -> Iterator[Admission]:
    """Admit one request at a time per key and per operation, while it plans.

    Takes two session-level advisory locks: no database transaction stays open, and PostgreSQL
    releases them if the process dies. Raises ``InProgress`` while another request has one.
    """
    key_lock, operation_lock = locks_of(request)
    parameters: dict[str, Any] = {
        "agent": str(request.by),
        "route": PREPARE_ROUTE,
        "key": request.key,
        "tenant": request.tenant,
        "operation_key": request.operation_key,
        "key_lock": key_lock,
        "operation_lock": operation_lock,
    }
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_ADMIT, parameters)
        has_key, has_operation, *known = cursor.fetchone()
    taken = [(has_key, key_lock), (has_operation, operation_lock)]
    locks = [lock for is_taken, lock in taken if is_taken]
    admission = Admission(locks, *known)
    try:
        if len(locks) < len(taken):
            raise InProgress()
        yield admission
    finally:
        if not admission.is_over:
            _unlock(locks)


@contextmanager
def operation_locked(tenant: str, operation_key: str, wait: timedelta) -> Iterator[None]:
    """Exclude every request for the operation, after those that plan it now.

    The lock is in a session of its own, so that it outlives a failure of the thread's connection.
    Raises ``InProgress`` after ``wait``. Without an operation key there is nobody to exclude.
    """
    if not operation_key:
        yield
        return
    lock = lock_of(tenant, operation_key)
    session = connection.copy()
    try:
        _wait_for(session, lock, time.monotonic() + wait.total_seconds())
        try:
            yield
        finally:
            _unlock([lock], session)
    finally:
        session.close()


def _wait_for(session: BaseDatabaseWrapper, lock: int, deadline: float) -> None:
    """Raises ``InProgress`` at the deadline. Has no session of PostgreSQL between two tries."""
    while True:
        with suppress(OperationalError, InterfaceError), session.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s::bigint)", [lock])
            if cursor.fetchone()[0]:
                return
        session.close()
        if time.monotonic() > deadline:
            raise InProgress()
        time.sleep(TRY_EVERY_S)


def _unlock(locks: list[int], session: BaseDatabaseWrapper | None = None) -> None:
    """Release the locks. PostgreSQL has done so already if the session is gone."""
    with suppress(OperationalError, InterfaceError), (session or connection).cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(lock) FROM unnest(%s::bigint[]) AS lock", [locks])


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
