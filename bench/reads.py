"""Reads of a transaction a second, beside the same rows by primary key through psycopg."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from bench.engines import bench_agent, free_port, web
from bench.http_load import SECONDS, Figures, Load, request
from bench.prepare import bare_rate, dsn
from bench.usage import cpu_seconds

# So many that, one after another, none is polled too fast at any rate that is measured here.
KNOWN = 20_000


def measure(connections: int) -> Figures:
    """Reads per second, p50 and p99 in milliseconds, and of the bare rows, in one run."""
    token, ids = bench_agent("propose"), _known()
    bare = bare_rate(connections, _bare_client, (dsn(), ids))
    port = free_port()
    with web(port) as pids:
        load = Load(f"http://127.0.0.1:{port}", connections)
        reads = _reads(token, ids)
        load.run(reads, seconds=1.5)  # warm up
        before = cpu_seconds(*pids)
        load.run(reads, seconds=SECONDS)
        used = cpu_seconds(*pids) - before
    ours = load.figures()
    return {
        **{f"read{unit}": value for unit, value in ours.items()},
        "read cpu ms": used * 1000 / len(load.spans),
        "bare, by primary key/s": bare,
        "ratio": ours["/s"] / bare,
    }


def _known() -> list[str]:
    """Ids of ``KNOWN`` transactions that wait for sign-off: copies of one, without its event."""
    from django.db import connection

    from ledger.api.rendering import render_token
    from ledger.models import Transaction
    from ledger.principals import Surface, agent
    from ledger.transactions import coordinator
    from ledger.transactions.coordinator import Proposal

    name = uuid.uuid4().hex
    first = coordinator.prepare(
        Proposal("unplanned", {"name": name}, reason="bench"),
        by=agent("bench", "bench", "Bench"),
        tenant="bench",
        key=name,
        via=Surface.REST,
        render=render_token,
    )
    columns = {field.column: f'"{field.column}"' for field in Transaction._meta.concrete_fields}
    fresh = columns | {"id": "gen_random_uuid()", "operation_key": "operation_key || ':' || n"}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""INSERT INTO ledger_transaction ({", ".join(columns.values())})
                SELECT {", ".join(fresh.values())}
                FROM ledger_transaction, generate_series(1, %s) AS n WHERE id = %s
                RETURNING id""",
            [KNOWN, first.transaction_id],
        )
        ids = [str(pk) for (pk,) in cursor.fetchall()]
        cursor.execute("ANALYZE ledger_transaction")
    connection.close()
    return ids


def _reads(token: str, ids: list[str]) -> Iterator[bytes]:
    headers = {"authorization": f"Bearer {token}"}
    for pk in itertools.cycle(ids):
        yield request("GET", f"/api/v1/transactions/{pk}", **headers)


def _bare_client(dsn: dict[str, Any], ids: list[str]) -> Callable[[], None]:
    import psycopg

    connection = psycopg.connect(**dsn, autocommit=True)

    def once() -> None:
        values = [random.choice(ids)]
        connection.execute(
            "SELECT * FROM ledger_transaction WHERE id = %s", values, prepare=True
        ).fetchone()

    return once
