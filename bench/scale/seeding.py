"""A ledger of any size, filled in minutes: two tables at a time, their indexes afterwards."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

from bench.scale import originals, tables
from bench.scale.variety import Series

A_CHECKPOINT = 5_000  # events
# For the seed only: a crash of the machine meanwhile costs no more than seeding again.
HASTY = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "'16GB'", "autovacuum": "off"}


def seed(number: int) -> None:
    """Fill an empty ledger with ``number`` ended transactions over two years, and what belongs.

    A quarter as many tasks, and a fiftieth as many changes of accounts, in four tenants.
    """
    originals.drop()
    originals.make()
    rows = Series(number, datetime.now(UTC))
    with _hasty():
        made_again = _drop_indexes()
        for parts in (tables.PARTS, tables.TERMS):
            _in_parallel([partial(_fill, made_again, part, rows) for part in parts])
        _fill(made_again, lambda *_: ["ledger_searchterm"], rows)
        originals.drop()
        _in_parallel([partial(_vacuum, table) for table in _filled()])
        _reset_sequences()
    _checkpoints()


def _in_parallel(parts: list[Callable[[], None]]) -> None:
    """Each in a thread with a session of its own, two at a time."""
    with ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(part) for part in parts]:
            future.result()


@contextmanager
def _hasty() -> Iterator[None]:
    """The server without what protects a ledger from a crash of the machine."""
    _configure([f"ALTER SYSTEM SET {name} = {value}" for name, value in HASTY.items()])
    try:
        yield
    finally:
        _configure(["CHECKPOINT", *(f"ALTER SYSTEM RESET {name}" for name in HASTY)])
        os.sync()


def _configure(statements: list[str]) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in [*statements, "SELECT pg_reload_conf()"]:
            cursor.execute(statement)


def _drop_indexes() -> dict[str, list[str]]:
    """Drop the indexes that are not constraints; by table the statements that make them again."""
    from django.db import connection

    made_again: dict[str, list[str]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_INDEXES)
        for name, table, statement in cursor.fetchall():
            cursor.execute(f"DROP INDEX {name}")
            made_again[table].append(statement)
        cursor.execute("ALTER TABLE ledger_searchterm DROP CONSTRAINT ledger_searchterm_pkey")
    key = "ALTER TABLE ledger_searchterm ADD PRIMARY KEY (tenant, term, transaction_id)"
    made_again["ledger_searchterm"].append(key)
    return made_again


_INDEXES = """
SELECT indexrelid::regclass::text, relname, pg_get_indexdef(indexrelid) FROM pg_index
JOIN pg_class c ON c.oid = indrelid
WHERE relnamespace = current_schema()::regnamespace
    AND relname ~ '^(ledger|a2a|approvals_slackmessage)'
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""


def _fill(made_again: dict[str, list[str]], part: tables.Part, rows: Series) -> None:
    """Fill some tables, without triggers; then make their indexes."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '512MB'")
        cursor.execute("SET session_replication_role = replica")
        for table in part(cursor, rows):
            for statement in made_again[table]:
                cursor.execute(statement)
    connection.close()


def _filled() -> list[str]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relname ~ '^(ledger|a2a|approvals_slackmessage)'"
            " ORDER BY pg_relation_size(oid) DESC"
        )
        return [name for (name,) in cursor.fetchall()]


def _vacuum(table: str) -> None:
    """Statistics, and which pages all can see; only when nobody writes, or those would be none."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM (ANALYZE, PARALLEL 0) {table}")
    connection.close()


def _reset_sequences() -> None:
    """Sequences go on beyond the rows."""
    from django.core.management.color import no_style
    from django.db import connection

    from ledger.models import Delivery, Event

    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Event, Delivery]):
            cursor.execute(statement)


def _checkpoints() -> None:
    """As many events each as the small ledger has: a proof counts those of one checkpoint."""
    from ledger.proof.log import checkpoints

    checkpoints.MOST_EVENTS = A_CHECKPOINT
    while checkpoints.make() is not None:
        pass
