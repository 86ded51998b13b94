"""Inserts new tasks with their first messages and events in one statement. The hot path."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection
from django.db.transaction import on_commit
from psycopg.errors import DeadlockDetected

from a2a.models import Message, Task
from a2a.states import TaskState
from ledger.events import outbox
from ledger.foundation import doorbell
from ledger.foundation.postgres import as_json, columns_of, use_prepared_statements
from ledger.models import Event
from ledger.principals import Principal, Surface
from ledger.states import Move

# Envelope ids may come in another order than the keys they belong to.
TRIES = 3
GIVE_WAY_S = 0.1  # so that the other one, which PostgreSQL let go on, has its turn


@dataclass(frozen=True, slots=True)
class Entry:
    """A new task, its first message, and the details of its first event as canonical JSON."""

    task: Task
    message: Message
    by: Principal
    details: str


def enter_all(entries: list[Entry], move: Move[TaskState], *, via: Surface) -> list[bool]:
    """Insert new tasks, all in one statement and one commit.

    ``False`` for a task whose idempotency key or message id was used before: nothing of it is
    written. Every process inserts keys in the same order, so that none waits for one that waits
    for it.
    """
    tasks, messages, events = [], [], []
    for entry in sorted(entries, key=_names):
        entry.message.task_id = entry.task.pk
        tasks.append(as_json(entry.task))
        messages.append(as_json(entry.message))
        events.append(as_json(_first_event(entry, move, via)))
    channels = outbox.wanted_for(move.kind)
    values: list[Any] = [f"[{','.join(rows)}]" for rows in (tasks, messages, events)]
    inserted = _insert([*values, channels])
    for entry in entries:
        if entry.task.pk in inserted:
            _ring(entry.task, move, *inserted[entry.task.pk])
    return [entry.task.pk in inserted for entry in entries]


def _names(entry: Entry) -> tuple[str, str, str]:
    """The names that are unique."""
    task = entry.task
    return task.submitted_by, task.idempotency_key, task.envelope_message_id


def _insert(values: list[Any], tries: int = TRIES) -> dict[UUID, tuple[Any, ...]]:
    """The statement's rows, by task. It is repeated after a deadlock, which undid it."""
    try:
        with use_prepared_statements(), connection.cursor() as cursor:
            cursor.execute(_enter_sql(), values)
            return {row[0]: row[1:] for row in cursor.fetchall()}
    except OperationalError as failure:
        is_deadlock = isinstance(failure.__cause__, DeadlockDetected)
        if tries == 1 or connection.in_atomic_block or not is_deadlock:
            raise
    time.sleep(GIVE_WAY_S)
    return _insert(values, tries - 1)


def _first_event(entry: Entry, move: Move[TaskState], via: Surface) -> Event:
    task = entry.task
    return Event(
        subject=task.pk,
        tenant=task.tenant,
        kind=move.kind,
        to_state=task.state,
        principal=str(entry.by),
        principal_name=entry.by.display_name,
        via=via,
        reason=task.reason,
        reason_source=task.reason_source,
        details=entry.details,
    )


def _ring(
    task: Task, move: Move[TaskState], created_at: datetime, event_id: int, owed: list[int] | None
) -> None:
    task.created_at = task.updated_at = created_at
    ring = partial(
        doorbell.ring, event_id, task.pk, task.tenant, move.kind, owed or (), is_first=True
    )
    on_commit(ring, robust=True)


@cache
def _enter_sql() -> str:
    """Messages, events and deliveries are inserted only for tasks that were."""
    columns = names_of(Task)
    records = "jsonb_populate_recordset(NULL::a2a_task, %s::jsonb)"
    return f"""
        WITH task AS (
                 INSERT INTO a2a_task ({columns}) SELECT {columns} FROM {records}
                 ON CONFLICT DO NOTHING RETURNING id, created_at
             ),
             message AS ({_after_task(Message, "task_id")}),
             event AS ({_after_task(Event, "subject")} RETURNING id, subject),
             owed AS (
                 INSERT INTO ledger_delivery (event_id, channel, recipient, state, attempts, error)
                 SELECT event.id, channel, '', 'waiting', 0, ''
                 FROM event, unnest(%s::text[]) AS channel
                 RETURNING id, event_id
             )
        SELECT task.id, task.created_at, event.id,
               (SELECT array_agg(owed.id) FROM owed WHERE owed.event_id = event.id)
        FROM task JOIN event ON event.subject = task.id
    """


def _after_task(model: Any, key: str) -> str:
    table = model._meta.db_table
    record = ", ".join(f'record."{field.column}"' for field in columns_of(model))
    return (
        f'INSERT INTO "{table}" ({names_of(model)}) SELECT {record} FROM '
        f"jsonb_populate_recordset(NULL::{table}, %s::jsonb) AS record "
        f"JOIN task ON task.id = record.{key}"
    )


def names_of(model: Any) -> str:
    return ", ".join(f'"{field.column}"' for field in columns_of(model))
