"""Inserts new transactions, with their events, deliveries and keys, in one SQL statement.

Prepare is the hot path. One statement is one round trip and one commit, half the cost of the
same rows written one by one (docs/decisions/one-statement.md). The statement also admits: it leaves
out whatever has been requested before, is being requested elsewhere, has a live transaction of its
operation, was judged by other rules than those that are active, or may be signed by a grant.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.transaction import atomic, on_commit

from ledger import seals, states
from ledger.contracts import RequiredApprover
from ledger.events import outbox
from ledger.foundation import doorbell
from ledger.foundation.postgres import (
    columns_of,
    insert_all_into,
    on_one_line,
    use_prepared_statements,
)
from ledger.models import LIVE_GRANT_SQL, Event, Evidence, IdempotencyKey, Transaction
from ledger.states import WITHOUT_EFFECT, Move, State
from ledger.transactions.prepare.admission import locks_of
from ledger.transactions.prepare.drafts import New
from ledger.transactions.prepare.proposals import PREPARE_ROUTE


def insert_all(
    batch: Sequence[New], move: Move[State] = states.PREPARE, *, is_admitted: bool = False
) -> set[UUID]:
    """Insert the transactions that are admitted; returns their ids.

    The statement has the locks of its requests until it is committed; where the caller has them,
    and knows of grants, it ``is_admitted``. Requests in a batch must differ in key and in
    operation. Raises ``django.db.IntegrityError`` when a key or an operation was taken meanwhile;
    nothing was inserted then.
    """
    locks = [(None, None) if is_admitted else locks_of(new.request) for new in batch]
    values: list[Any] = [
        _array([new.row.__dict__ for new in batch]),
        [new.request.key for new in batch],
        [key_lock for key_lock, _ in locks],
        [operation_lock for _, operation_lock in locks],
        _array([_first_event(new, move) for new in batch]),
        _array([_kept_answer(new) for new in batch]),
        outbox.wanted_for(move.kind),
    ]
    has_evidence = any(new.contents for new in batch)
    with atomic() if has_evidence else nullcontext():
        with use_prepared_statements(), connection.cursor() as cursor:
            cursor.execute(_insert_sql(), values)
            inserted = cursor.fetchall()
        if has_evidence:
            _insert_evidence(batch, {subject for _, subject, *_ in inserted})
    by_subject = {new.row.id: new for new in batch}
    for event_id, subject, owed in inserted:
        ring = partial(
            doorbell.ring,
            event_id,
            subject,
            by_subject[subject].row.tenant,
            move.kind,
            owed or (),
            is_first=True,
            is_supervised=_is_supervised(by_subject[subject]),
        )
        on_commit(ring, robust=True)
    return {subject for _, subject, *_ in inserted}


def _insert_evidence(batch: Sequence[New], inserted: set[UUID]) -> None:
    """In the database transaction of their rows. The hot path has none."""
    Evidence.objects.bulk_create(
        Evidence(transaction_id=new.row.id, number=number, content=content)
        for new in batch
        if new.row.id in inserted
        for number, content in enumerate(new.contents, 1)
    )


def _is_supervised(new: New) -> bool:
    is_prepared: bool = new.row.state == State.PREPARED
    return is_prepared and bool(new.row.required_approver == RequiredApprover.SUPERVISOR)


def _array(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, default=str)


def _first_event(new: New, move: Move[State]) -> dict[str, Any]:
    row = new.row
    return _blank(Event) | {
        "subject": row.id,
        "transaction_id": row.id,
        "tenant": row.tenant,
        "kind": move.kind,
        "to_state": row.state,
        "principal": row.proposed_by,
        "principal_name": row.proposed_by_name,
        "via": new.request.via,
        "reason": row.ending_reason or row.stated_reason,
        "details": seals.canonical(seals.first_details(row)).decode(),
    }


def _kept_answer(new: New) -> dict[str, Any]:
    return {
        "agent": new.row.proposed_by,
        "route": PREPARE_ROUTE,
        "key": new.request.key,
        "payload_hash": new.request.fingerprint,
        "transaction_id": new.row.id,
        "status": new.status,
        "answer": new.answer,
    }


@cache
def _blank(model: type[Event]) -> dict[str, Any]:
    return {field.attname: getattr(model(), field.attname) for field in columns_of(model)}


@cache
def _insert_sql() -> str:
    """The locks are tried once, before anything is looked up, and end with the statement.

    A scalar subquery with LIMIT is always looked up row by row in its index. The states are
    literals, so that the partial index is used.
    """
    ended = ", ".join(f"'{state}'" for state in sorted(WITHOUT_EFFECT))
    of_draft = LIVE_GRANT_SQL.format("draft.tenant", "draft.proposed_by", "draft.tool")
    return on_one_line(f"""
        WITH draft AS MATERIALIZED (
                 SELECT row.*, request.key, request.key_lock,
                        coalesce(
                            pg_try_advisory_xact_lock(request.key_lock)
                            AND pg_try_advisory_xact_lock(request.operation_lock), true) AS is_free
                 FROM jsonb_populate_recordset(NULL::ledger_transaction, %s::jsonb)
                     WITH ORDINALITY AS row
                 JOIN unnest(%s::text[], %s::bigint[], %s::bigint[])
                     WITH ORDINALITY AS request (key, key_lock, operation_lock, ordinality)
                     USING (ordinality)
             ),
             admitted AS MATERIALIZED (
                 SELECT draft.* FROM draft
                 WHERE draft.is_free
                     AND (draft.key_lock IS NULL OR NOT EXISTS ({of_draft}))
                     AND (draft.state <> '{State.PREPARED}'
                          OR coalesce((draft.terms ->> 'set')::int, 0)
                              = coalesce((SELECT tenant.rule_set FROM ledger_tenant tenant
                                          WHERE tenant.slug = draft.tenant), 0))
                     AND (SELECT k.id FROM ledger_idempotencykey k
                          WHERE k.agent = draft.proposed_by AND k.route = '{PREPARE_ROUTE}'
                              AND k.key = draft.key LIMIT 1) IS NULL
                     AND (SELECT t.id FROM ledger_transaction t
                          WHERE t.tenant = draft.tenant AND t.operation_key = draft.operation_key
                              AND t.state NOT IN ({ended}) LIMIT 1) IS NULL
                     AND (SELECT late.id FROM ledger_transaction late
                          WHERE late.tenant = draft.tenant
                              AND late.operation_key = draft.operation_key
                              AND late.late_receipt <> '' LIMIT 1) IS NULL
             ),
             entry AS ({insert_all_into(Transaction, "FROM admitted")}),
             event AS (
                 {insert_all_into(Event, _OF_ADMITTED.format("ledger_event", "subject"))}
                 RETURNING id, subject
             ),
             answer AS ({
        insert_all_into(
            IdempotencyKey, _OF_ADMITTED.format("ledger_idempotencykey", "transaction_id")
        )
    }),
             owed AS (
                 INSERT INTO ledger_delivery (event_id, channel, recipient, state, attempts, error)
                 SELECT event.id, channel, '', 'waiting', 0, ''
                 FROM event, unnest(%s::text[]) AS channel
                 RETURNING id, event_id
             )
        SELECT event.id, event.subject,
               (SELECT array_agg(owed.id) FROM owed WHERE owed.event_id = event.id)
        FROM event
    """)


_OF_ADMITTED = """
    FROM jsonb_populate_recordset(NULL::{0}, %s::jsonb) AS row
    WHERE row.{1} IN (SELECT admitted.id FROM admitted)
"""
