"""How a task enters: row, first message and first event in one statement. The hot path."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from django.db import connection
from django.db.transaction import on_commit

from a2a.models import Message, Task
from a2a.states import Move
from ledger import deliveries, doorbell, plans
from ledger.inserts import as_json, columns_of, insert_into
from ledger.models import Event
from ledger.principals import Principal


def enter(
    task: Task, move: Move, message: Message, *, by: Principal, via: str, details: str
) -> bool:
    """Write a new task; ``False`` when its key or its envelope was used before.

    Raises ``django.db.IntegrityError`` for nothing that a client could cause.
    """
    event = Event(
        subject=task.pk,
        tenant=task.tenant,
        kind=move.name,
        to_state=task.state,
        principal=str(by),
        principal_name=by.display_name,
        via=via,
        reason=task.reason,
        details=details,
    )
    message.task_id = task.pk
    channels = deliveries.wanted_for(move.name)
    with plans.kept(), connection.cursor() as cursor:
        cursor.execute(_enter_sql(), [as_json(task), as_json(message), as_json(event), channels])
        found = cursor.fetchone()
    if found is None:
        return False
    event_id, owed, task.created_at = found
    task.updated_at = task.created_at
    on_commit(
        partial(doorbell.ring, event_id, task.pk, task.tenant, move.name, owed or ()), robust=True
    )
    return True


@cache
def _enter_sql() -> str:
    """The others are written only if the task was."""
    task = insert_into(Task)
    return f"""
        WITH task AS ({task} ON CONFLICT DO NOTHING RETURNING id, created_at),
             message AS ({_after_task(Message)}),
             event AS ({_after_task(Event)} RETURNING id),
             owed AS (
                 INSERT INTO ledger_delivery (event_id, channel, recipient, state, attempts, error)
                 SELECT event.id, channel, '', 'waiting', 0, ''
                 FROM event, unnest(%s::text[]) AS channel
                 RETURNING id
             )
        SELECT event.id, (SELECT array_agg(owed.id) FROM owed), task.created_at FROM event, task
    """


def _after_task(model: Any) -> str:
    table = model._meta.db_table
    names = ", ".join(f'"{field.column}"' for field in columns_of(model))
    record = ", ".join(f'record."{field.column}"' for field in columns_of(model))
    return (
        f'INSERT INTO "{table}" ({names}) SELECT {record} '
        f"FROM task, jsonb_populate_record(NULL::{table}, %s::jsonb) AS record"
    )
