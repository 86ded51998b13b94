"""The rows of a seeded ledger: copies of rows that the product wrote, varied inside PostgreSQL.

Every table gets its rows from one ``INSERT … SELECT`` over a series of numbers: no row passes
through Python. Hashes of events have their length and are not true; ``bench.verification`` has a
ledger that verifies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.scale import variety
from bench.scale.variety import Series, id_of

EVENTS_PER_TRANSACTION, EVENTS_PER_TASK = 4, 3
Part = Callable[[Any, Series], list[str]]  # fills some tables; their names


def _transactions(cursor: Any, rows: Series) -> list[str]:
    _insert(
        cursor,
        "ledger_transaction",
        rows,
        id=id_of("transaction"),
        tenant=variety.TENANT,
        state=variety.STATE,
        ending=f"CASE WHEN {variety.STATE} = 'aborted' THEN 'rejected' ELSE '' END",
        proposed_by=variety.PROPOSER,
        proposed_by_name=variety.AGENT_NAME,
        run_id="'run-' || g.n / 5",
        trace_id="md5('trace' || g.n / 2)",
        tool=variety.TOOL,
        risk_level=variety.RISK,
        operation_key=f"{variety.TENANT} || ':' || {variety.TOOL} || ':' || {variety.PAYMENT}",
        action_summary=variety.SUMMARY,
        payload=variety.CONTENT,
        arguments=variety.CONTENT,
        result=variety.CONTENT,
        amount="(g.r % 90000 / 100.0)",
        currency="'EUR'",
        intent_digest="md5('a' || g.n) || md5('b' || g.n)",
        created_at="g.t",
        expires_at="g.t + interval '1 hour'",
        decided_at="g.t + interval '1 minute'",
        ended_at="g.t + interval '2 minutes'",
        retain_until="now() + interval '5 years'",
        receipt="'re_' || left(md5('receipt' || g.n), 20)",
    )
    return ["ledger_transaction"]


def _terms(cursor: Any, rows: Series, *, half: int) -> list[str]:
    """Terms that the triggers write when transactions end, of every second one."""
    cursor.execute(
        "INSERT INTO ledger_searchterm (tenant, term, transaction_id)"
        " SELECT tenant, unnest(ledger_search_terms(tx)), id FROM ledger_transaction tx"
        f" WHERE get_byte(uuid_send(id), 15) % 2 = {half}"
    )
    return []


def _events_of_all(cursor: Any, rows: Series) -> list[str]:
    """The chains of transactions, tasks and accounts."""
    each = EVENTS_PER_TRANSACTION
    _events(cursor, rows, "transaction", each, transaction_id=id_of("transaction"))
    base, tasks = each * rows.number, rows.fraction(4)
    _events(cursor, tasks, "task", EVENTS_PER_TASK, base)
    base += EVENTS_PER_TASK * tasks.number
    _events(cursor, rows.fraction(50), "change", 1, base)
    return ["ledger_event"]


def _events(cursor: Any, rows: Series, what: str, each: int, base: int = 0, **columns: str) -> None:
    """The chains of the subjects. Ids rise with time within one kind of subject."""
    _insert(
        cursor,
        "ledger_event",
        rows,
        which=f"what = '{what}'",
        id=f"{base} + {each} * (g.n - 1) + o.seq",
        subject=id_of(what),
        tenant=variety.TENANT,
        at="g.t + (o.seq - 1) * interval '40 seconds'",
        hash="md5('e' || g.n || o.seq) || md5('f' || g.n || o.seq)",
        previous_hash="CASE o.seq WHEN 1 THEN '' ELSE"
        " md5('e' || g.n || o.seq - 1) || md5('f' || g.n || o.seq - 1) END",
        **columns,
    )


def _what_belongs(cursor: Any, rows: Series) -> list[str]:
    """Decisions, operation keys, deliveries, messages in Slack, and readings."""
    _insert(
        cursor,
        "ledger_decision",
        rows,
        transaction_id=id_of("transaction"),
        intent_digest="md5('a' || g.n) || md5('b' || g.n)",
        at="g.t + interval '1 minute'",
    )
    _insert(
        cursor,
        "ledger_idempotencykey",
        rows,
        agent=variety.PROPOSER,
        key="'key-' || md5('key' || g.n)",
        transaction_id=id_of("transaction"),
        created_at="g.t",
    )
    _insert(
        cursor,
        "ledger_delivery",
        rows,
        event_id=f"{EVENTS_PER_TRANSACTION} * g.n",
        recipient=variety.PROPOSER,
        state="CASE WHEN g.n <= 20 THEN 'given_up' ELSE 'done' END",
        next_attempt_at="g.t",
        done_at="g.t + interval '3 minutes'",
    )
    _insert(
        cursor,
        "approvals_slackmessage",
        rows,
        transaction_id=id_of("transaction"),
        ts="extract(epoch FROM g.t)::numeric(16, 6)::text",
    )
    _insert(
        cursor,
        "ledger_reading",
        rows.fraction(10),
        id=id_of("reading"),
        tenant=variety.TENANT,
        agent=variety.PROPOSER,
        tool=variety.READONLY,
        at="g.t",
    )
    return [
        "ledger_decision",
        "ledger_idempotencykey",
        "ledger_delivery",
        "approvals_slackmessage",
        "ledger_reading",
    ]


def _tasks(cursor: Any, all_rows: Series) -> list[str]:
    """Tasks with their messages, artifacts and questions."""
    rows, task = all_rows.fraction(4), id_of("task")
    state = variety.TASK_STATE
    _insert(
        cursor,
        "a2a_task",
        rows,
        id=task,
        tenant=variety.TENANT,
        state=state,
        reason_code=f"CASE {state} WHEN 'completed' THEN '' ELSE 'internal_error' END",
        skill_slug=variety.SKILL,
        submitted_by=variety.PROPOSER,
        submitted_by_name=variety.AGENT_NAME,
        owner=variety.PROPOSER,
        context_id="'context-' || g.n / 3",
        trace_id="md5('trace' || g.n)",
        idempotency_key="'key-' || g.n",
        created_at="g.t",
        updated_at="g.t + interval '2 minutes'",
        ended_at="g.t + interval '2 minutes'",
        retain_until="now() + interval '5 years'",
    )
    _insert(cursor, "a2a_message", rows, task_id=task, at="g.t")
    _insert(cursor, "a2a_artifact", rows, task_id=task, at="g.t")
    _insert(
        cursor,
        "a2a_question",
        rows,
        id=id_of("question"),
        task_id=task,
        tenant=variety.TENANT,
        text=f"'Is ' || {variety.PERSON} || ' the holder of ' || {variety.PAYMENT} || '?'",
        created_at="g.t",
        expires_at="g.t + interval '10 minutes'",
        ended_at="g.t + interval '1 minute'",
    )
    return ["a2a_task", "a2a_message", "a2a_artifact", "a2a_question"]


def _insert(cursor: Any, table: str, rows: Series, which: str = "true", **columns: str) -> None:
    """Copies of the original rows of a table; ``columns`` says in SQL what differs.

    In SQL, ``g`` is a row of ``rows`` and ``o`` an original.
    """
    cursor.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND NOT attisdropped AND attidentity = ''",
        [table],
    )
    names = [name for (name,) in cursor.fetchall()]
    if "id" not in columns:
        names = [name for name in names if name != "id"]
    values = ", ".join(columns.get(name, f'o."{name}"') for name in names)
    quoted = ", ".join(f'"{name}"' for name in names)
    # Row by row in the order of time, as the product would have written them.
    cursor.execute(
        f"INSERT INTO {table} ({quoted}) OVERRIDING SYSTEM VALUE SELECT {values} FROM {rows} g"
        f" CROSS JOIN LATERAL (SELECT *, g.n AS nth FROM original_{table} WHERE {which} OFFSET 0) o"
    )


# Filled two at a time, the largest first; then the terms of the transactions.
PARTS: list[Part] = [_events_of_all, _transactions, _what_belongs, _tasks]
TERMS: list[Part] = [partial(_terms, half=0), partial(_terms, half=1)]
