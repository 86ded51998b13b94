"""The rows that the seeded ledger copies: written by the product, or as the product writes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def make() -> None:
    """Put one ended transaction, one task and one change of an account into tables of their own."""
    from django.db import connection

    transaction, task, change = _transaction(), _task(), _change()
    wanted = {
        "ledger_transaction": f"id = '{transaction}'",
        "ledger_decision": f"transaction_id = '{transaction}'",
        "ledger_idempotencykey": f"transaction_id = '{transaction}'",
        "ledger_delivery": "id = (SELECT max(id) FROM ledger_delivery)",
        "ledger_reading": "true",
        "approvals_slackmessage": f"transaction_id = '{transaction}'",
        "a2a_task": f"id = '{task}'",
        "a2a_message": f"task_id = '{task}'",
        "a2a_artifact": f"task_id = '{task}'",
        "a2a_question": f"task_id = '{task}'",
    }
    chains = (
        f"SELECT *, CASE subject WHEN '{transaction}' THEN 'transaction' WHEN '{task}' THEN 'task'"
        " ELSE 'change' END AS what FROM ledger_event"
        f" WHERE subject IN ('{transaction}', '{task}') OR id = {change} ORDER BY seq"
    )
    with connection.cursor() as cursor:
        for table, which in wanted.items():
            _keep(cursor, table, f"SELECT * FROM {table} WHERE {which}")
        _keep(cursor, "ledger_event", chains)
        cursor.execute("UPDATE original_ledger_event SET seq = 1 WHERE what = 'change'")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(f"TRUNCATE {', '.join([*wanted, 'ledger_event'])} CASCADE")
        cursor.execute("RESET session_replication_role")


def drop() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relname ~ '^original_' AND relkind = 'r'"
        )
        for (table,) in cursor.fetchall():
            cursor.execute(f"DROP TABLE {table}")


def _keep(cursor: Any, table: str, query: str) -> None:
    cursor.execute(f"CREATE UNLOGGED TABLE original_{table} AS {query}")
    cursor.execute(f"SELECT count(*) FROM original_{table}")
    assert cursor.fetchone()[0], f"There is no original row of {table}."


def _transaction() -> Any:
    from approvals.models import SlackMessage, SlackWorkspace
    from bench.verification import _carried_out
    from ledger.models import Delivery, DeliveryState, Reading

    original = _carried_out()
    event = original.row.events.order_by("-seq")[0]
    Delivery.objects.create(
        event=event, channel="webhook", recipient="somebody", state=DeliveryState.DONE, attempts=1
    )
    workspace = SlackWorkspace.objects.create(team_id="T1", name="Bench", bot_user_id="U1")
    SlackMessage.objects.create(
        workspace=workspace, transaction=original.row, target="C1", channel="C1", ts="1.2"
    )
    Reading.objects.create(tenant="bench", agent="agent:bench/bench", tool="look", arguments={})
    return original.row.pk


def _task() -> Any:
    from django.db.models.functions import Now
    from django.utils import timezone

    from a2a.models import Artifact, Message, Question, Task
    from ledger.events import chains
    from ledger.principals import Surface, agent

    by = agent("bench", "bench", "Bench")
    task = Task.objects.create(
        tenant="bench",
        context_id="context",
        state="completed",
        skill_slug="measured",
        input={"text": "Summarise the last call, and say what was promised."},
        result={"text": "A refund was promised."},
        submitted_by=str(by),
        submitted_by_name="Bench",
        owner=str(by),
        owner_name="Bench",
        payload_hash="0" * 64,
        ended_at=Now(),
    )
    parts = [{"text": "Summarise the last call, and say what was promised."}]
    who = {"principal": str(by), "principal_name": "Bench"}
    Message.objects.create(task=task, message_id="first", role="user", parts=parts, **who)
    Artifact.objects.create(task=task, artifact_id="result", parts=parts)
    Question.objects.create(
        task=task,
        tenant="bench",
        state="answered",
        text="Which one?",
        asked_by=str(by),
        asked_by_name="Bench",
        expires_at=timezone.now(),
        ttl=timedelta(minutes=10),
        answer="This one.",
        answered_by=str(by),
        answered_by_name="Bench",
        ended_at=Now(),
    )
    for kind, state in (
        ("task_submitted", "submitted"),
        ("task_claimed", "working"),
        ("task_completed", "completed"),
    ):
        chains.append_event(
            task.pk, tenant="bench", kind=kind, to_state=state, by=by, via=Surface.REST
        )
    return task.pk


def _change() -> int:
    from ledger.events import account_changes
    from ledger.events.change_kinds import ChangeKind
    from ledger.principals import Surface, user

    event = account_changes.record_change(
        "user:1",
        ChangeKind.ROLE_GRANTED,
        tenant="bench",
        by=user("1", "Alice"),
        via=Surface.ADMIN,
        name="Bob",
        details={"role": "viewer"},
    )
    return event.pk
