"""Inserts a new transaction: everything that prepare writes, in one SQL statement.

Prepare is the hot path. One statement is one round trip and one commit, half the cost of the
same rows written one by one (docs/decisions/one-statement.md).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import on_commit

from ledger import seals
from ledger.errors import InProgress
from ledger.events import outbox
from ledger.foundation import doorbell
from ledger.foundation.postgres import as_json, insert_into, use_prepared_statements
from ledger.models import Event, IdempotencyKey, Transaction
from ledger.principals import Principal, Surface
from ledger.seals import intents
from ledger.states import WITHOUT_EFFECT, Move, State

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
    holder_input_hash: str | None
    late_id: UUID | None
    is_over: bool = False


# The states are literals, not parameters: a prepared statement with parameters could not use the
# partial index ``ledger_tx_one_per_operation``.
_ADMIT = f"""
    SELECT pg_try_advisory_lock(%(key_lock)s::bigint),
           pg_try_advisory_lock(%(operation_lock)s::bigint),
           clock_timestamp(), k.payload_hash, k.transaction_id, k.status, k.answer,
           t.id, t.input_hash,
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
def admitted(
    by: Principal, tenant: str, *, route: str, key: str, operation_key: str
) -> Iterator[Admission]:
    """Admit one request at a time per key and per operation, while it plans.

    Takes two session-level advisory locks: no database transaction stays open, and PostgreSQL
    releases them if the process dies. Raises ``InProgress`` while another request has one.
    """
    key_lock = lock_of(str(by), route, key)
    # Without an operation key there is nothing to exclude but the same request.
    operation_lock = lock_of(tenant, operation_key) if operation_key else key_lock
    parameters: dict[str, Any] = {
        "agent": str(by),
        "route": route,
        "key": key,
        "tenant": tenant,
        "operation_key": operation_key,
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


def insert_transaction(
    row: Transaction,
    move: Move[State],
    *,
    by: Principal,
    via: Surface,
    key: IdempotencyKey,
    admission: Admission,
) -> None:
    """Insert a new transaction with its first event, its deliveries and its idempotency key.

    The same statement releases the admission's locks, which saves a round trip. It takes them
    again for its own database transaction, so the next request sees the committed row. Raises
    ``django.db.IntegrityError`` when the key or the operation key was taken meanwhile.
    """
    channels = outbox.wanted_for(move.kind)
    event = Event(
        subject=row.pk,
        transaction_id=row.pk,
        tenant=row.tenant,
        kind=move.kind,
        to_state=row.state,
        principal=str(by),
        principal_name=by.display_name,
        via=via,
        reason=row.stated_reason if not row.ending_reason else row.ending_reason,
        details=intents.canonical(seals.first_details(row)).decode(),
    )
    values: list[Any] = [as_json(row), as_json(event), as_json(key), channels, *admission.locks * 2]
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_insert_sql(), values)
        event_id, owed, *_ = cursor.fetchone()
    admission.is_over = True
    ring = partial(
        doorbell.ring, event_id, row.pk, row.tenant, move.kind, owed or (), is_first=True
    )
    on_commit(ring, robust=True)


def remember(key: IdempotencyKey) -> None:
    """Store the answer to a request that inserted no transaction (a duplicate)."""
    key.save(force_insert=True)


def take_key(agent: str, route: str, key: str, *, status: int) -> UUID | None:
    """Take an unused key for good; returns the transaction if one was inserted with it.

    Waits for an uncommitted INSERT with the key, so exactly one of the two gets it.
    """
    row = IdempotencyKey(agent=agent, route=route, key=key, status=status)
    IdempotencyKey.objects.bulk_create([row], ignore_conflicts=True)
    holder = IdempotencyKey.objects.get(agent=agent, route=route, key=key)
    return holder.transaction_id


@cache
def _insert_sql() -> str:
    return f"""
        WITH entry AS ({insert_into(Transaction)}),
             event AS ({insert_into(Event)} RETURNING id),
             answer AS ({insert_into(IdempotencyKey)}),
             owed AS (
                 INSERT INTO ledger_delivery (event_id, channel, recipient, state, attempts, error)
                 SELECT event.id, channel, '', 'waiting', 0, ''
                 FROM event, unnest(%s::text[]) AS channel
                 RETURNING id
             )
        SELECT event.id, (SELECT array_agg(owed.id) FROM owed),
               pg_advisory_xact_lock(%s::bigint), pg_advisory_xact_lock(%s::bigint),
               pg_advisory_unlock(%s::bigint), pg_advisory_unlock(%s::bigint)
        FROM event
    """


def lock_of(*parts: str) -> int:
    """The advisory lock of a request (agent, route, key) or of an operation (tenant, its key)."""
    digest = hashlib.sha256("\x1f".join(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
