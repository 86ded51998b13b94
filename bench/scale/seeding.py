"""A ledger of any size: copies of rows that the product wrote, varied inside PostgreSQL.

Every table gets its rows from one ``INSERT … SELECT`` over a series of numbers: no row passes
through Python. Triggers are off and indexes are made afterwards, as ``pg_restore`` does it.
Hashes of events have their length and are not true; ``bench.verification`` has a ledger that
verifies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.scale import originals, variety
from bench.scale.variety import id_of

EVENTS_PER_TRANSACTION, EVENTS_PER_TASK = 4, 3


def seed(number: int) -> None:
    """Fill an empty ledger with ``number`` ended transactions over two years, and what belongs.

    A quarter as many tasks, and a fiftieth as many changes of accounts, in four tenants.
    """
    from django.db.transaction import atomic

    originals.make()
    with atomic(), _fast() as cursor:  # in one database transaction now() stands still
        _transactions(cursor, number)
        _tasks(cursor, number // 4)
        _changes(cursor, number // 50)
        _readings(cursor, number // 10)
        _terms(cursor)
    _finish()
    _checkpoints()


@contextmanager
def _fast() -> Iterator[Any]:
    """A cursor without triggers; the indexes of the tables that it fills are made at the end."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '512MB'")
        cursor.execute("SET max_parallel_maintenance_workers = 0")  # /dev/shm may be small
        cursor.execute("SET session_replication_role = replica")
        made_again = _drop_indexes(cursor)
        yield cursor
        for statement in made_again:
            cursor.execute(statement)
        cursor.execute("RESET ALL")


def _drop_indexes(cursor: Any) -> list[str]:
    """Drop the indexes that are no constraints; the statements that make them again."""
    cursor.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
        " JOIN pg_class c ON c.oid = indrelid"
        " WHERE relnamespace = current_schema()::regnamespace AND relname ~ '^(ledger|a2a)_'"
        " AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)"
    )
    indexes = cursor.fetchall()
    for name, _ in indexes:
        cursor.execute(f"DROP INDEX {name}")
    cursor.execute("ALTER TABLE ledger_searchterm DROP CONSTRAINT ledger_searchterm_pkey")
    key = "ALTER TABLE ledger_searchterm ADD PRIMARY KEY (tenant, term, transaction_id)"
    return [*(statement for _, statement in indexes), key]


def _terms(cursor: Any) -> None:
    """What the triggers write when transactions end."""
    cursor.execute(
        "INSERT INTO ledger_searchterm (tenant, term, transaction_id)"
        " SELECT tenant, unnest(ledger_search_terms(tx)), id FROM ledger_transaction tx"
    )


def _finish() -> None:
    """Sequences beyond the rows, and fresh statistics."""
    from django.core.management.color import no_style
    from django.db import connection

    from ledger.models import Delivery, Event

    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Event, Delivery]):
            cursor.execute(statement)
        cursor.execute("SELECT relname FROM pg_stat_user_tables WHERE relname ~ '^(ledger|a2a)_'")
        for (table,) in cursor.fetchall():
            cursor.execute(f"VACUUM ANALYZE {table}")


def _checkpoints() -> None:
    from ledger.log import checkpoints

    while checkpoints.make() is not None:
        pass


def _insert(cursor: Any, table: str, rows: str, which: str = "true", **columns: str) -> None:
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


def _transactions(cursor: Any, number: int) -> None:
    rows = variety.rows(number)
    subject = id_of("transaction")
    _insert(
        cursor,
        "ledger_transaction",
        rows,
        id=subject,
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
    _events(cursor, rows, "transaction", EVENTS_PER_TRANSACTION, transaction_id=subject)
    _insert(
        cursor,
        "ledger_decision",
        rows,
        transaction_id=subject,
        intent_digest="md5('a' || g.n) || md5('b' || g.n)",
        at="g.t + interval '1 minute'",
    )
    _insert(
        cursor,
        "ledger_idempotencykey",
        rows,
        agent=variety.PROPOSER,
        key="'key-' || md5('key' || g.n)",
        transaction_id=subject,
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


def _events(cursor: Any, rows: str, what: str, each: int, base: str = "0", **columns: str) -> None:
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


def _after(cursor: Any) -> str:
    cursor.execute("SELECT coalesce(max(id), 0) FROM ledger_event")
    return str(cursor.fetchone()[0])


def _tasks(cursor: Any, number: int) -> None:
    rows, task = variety.rows(number), id_of("task")
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
    _events(cursor, rows, "task", EVENTS_PER_TASK, _after(cursor))
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


def _changes(cursor: Any, number: int) -> None:
    _events(cursor, variety.rows(number), "change", 1, _after(cursor))


def _readings(cursor: Any, number: int) -> None:
    _insert(
        cursor,
        "ledger_reading",
        variety.rows(number),
        id=id_of("reading"),
        tenant=variety.TENANT,
        agent=variety.PROPOSER,
        tool=variety.READONLY,
        at="g.t",
    )
