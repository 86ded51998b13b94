"""Proposals a second, beside the bare commit limit of the same rows."""

from __future__ import annotations

import json
import multiprocessing
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from bench.engines import bench_agent, free_port, web
from bench.http_load import CREATED, SECONDS, Figures, Load, request
from bench.usage import cpu_seconds

OPERATION = re.compile(r"\w+:bench:[0-9a-f]{32}")


def measure(connections: int, tool: str = "unplanned") -> Figures:
    """Proposals (or commits) per second, p50 and p99 in milliseconds, all in one run.

    ``cpu ms`` is the processor time that the two web processes use for one request.
    """
    token = bench_agent("propose")
    statements = _bare_statements(tool)
    bare = bare_rate(connections, _bare_client, (dsn(), statements, False))
    single = bare_rate(connections, _bare_client, (dsn(), statements, True))
    port = free_port()
    with web(port) as pids:
        load = Load(f"http://127.0.0.1:{port}", connections, expects=CREATED)
        load.run(proposals(token, tool), seconds=1.5)  # warm up
        before = cpu_seconds(*pids)
        load.run(proposals(token, tool), seconds=SECONDS)
        used = cpu_seconds(*pids) - before
    ours = load.figures()
    return {
        **{f"prepare{unit}": value for unit, value in ours.items()},
        "prepare cpu ms": used * 1000 / len(load.spans),
        "bare, a statement a table/s": bare,
        "bare, one statement/s": single,
        "ratio": ours["/s"] / bare,
        "ratio to one statement": ours["/s"] / single,
    }


def proposals(token: str, tool: str) -> Iterator[bytes]:
    """New proposals without end."""
    while True:
        name = uuid.uuid4().hex
        body = {"tool": tool, "arguments": {"name": name}, "reason": "bench"}
        yield request(
            "POST",
            "/api/v1/transactions",
            json.dumps(body).encode(),
            authorization=f"Bearer {token}",
            idempotency_key=name,
        )


def dsn() -> dict[str, Any]:
    from django.db import connection

    info = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    connection.close()
    return {name: info[name] for name in names if info.get(name)}


Client = Callable[..., Callable[[], None]]


def bare_rate(connections: int, client: Client, arguments: tuple[Any, ...]) -> float:
    """Operations per second of the client, in two processes with half of the connections each."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    halves = [
        context.Process(target=_half, args=(connections // 2, client, arguments, results))
        for _ in range(2)
    ]
    for half in halves:
        half.start()
    done = sum(results.get() for _ in halves)
    for half in halves:
        half.join()
    return done / SECONDS


def _half(connections: int, client: Client, arguments: tuple[Any, ...], results: Any) -> None:
    done: list[int] = []
    ready = threading.Barrier(connections)

    def run() -> None:
        once = client(*arguments)
        ready.wait()
        until, times = time.perf_counter() + SECONDS, 0
        while time.perf_counter() < until:
            once()
            times += 1
        done.append(times)

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(sum(done))


def _bare_statements(tool: str) -> list[tuple[str, list[Any]]]:
    """The very rows of one prepare, as INSERTs with the values that the ledger would write."""
    from django.db import connection

    from ledger.api.rendering import render_token
    from ledger.foundation.postgres import inserts
    from ledger.models import Event, IdempotencyKey, Transaction
    from ledger.principals import Surface, agent
    from ledger.transactions import coordinator
    from ledger.transactions.coordinator import Proposal

    key = uuid.uuid4().hex
    answer = coordinator.prepare(
        Proposal(tool, {"name": key}, reason="bench"),
        by=agent("bench", "bench", "Bench"),
        tenant="bench",
        key=key,
        via=Surface.REST,
        render=render_token,
    )
    rows = [
        Transaction.objects.get(pk=answer.transaction_id),
        Event.objects.get(transaction_id=answer.transaction_id, seq=1),
        IdempotencyKey.objects.get(key=key),
    ]
    return [_plain_insert(row, inserts.columns_of(type(row)), connection) for row in rows]


def _plain_insert(row: Any, columns: Any, connection: Any) -> tuple[str, list[Any]]:
    names = ", ".join(f'"{field.column}"' for field in columns)
    marks = ", ".join(["%s"] * len(columns))
    values = [
        _literal(field.get_db_prep_save(getattr(row, field.attname), connection))
        for field in columns
    ]
    return f'INSERT INTO "{row._meta.db_table}" ({names}) VALUES ({marks})', values


def _literal(value: Any) -> Any:
    """A value that can be sent to another process: psycopg's wrappers cannot."""
    return json.dumps(value.obj) if hasattr(value, "obj") else value


def _bare_client(
    dsn: dict[str, Any], statements: list[tuple[str, list[Any]]], in_one: bool
) -> Callable[[], None]:
    import psycopg

    connection = psycopg.connect(**dsn, autocommit=True)
    (tx_sql, tx), (event_sql, event), (key_sql, key) = statements
    old_id = str(tx[0])
    operation_key = next(value for value in tx if OPERATION.match(str(value)))
    operation, _, _ = operation_key.rpartition(":")
    single = f"WITH t AS ({tx_sql}), e AS ({event_sql}) {key_sql}"

    def fresh(values: list[Any], new_id: uuid.UUID) -> list[Any]:
        return [
            new_id
            if str(value) == old_id
            else f"{operation}:{new_id.hex}"
            if value == operation_key
            else value
            for value in values
        ]

    def once() -> None:
        new_id = uuid.uuid4()
        t, e, k = fresh(tx, new_id), fresh(event, new_id), fresh(key, new_id)
        k[2] = new_id.hex
        if in_one:
            connection.execute(single, [*t, *e, *k], prepare=True)
            return
        with connection.transaction():
            connection.execute(tx_sql, t, prepare=True)
            connection.execute(event_sql, e, prepare=True)
            connection.execute(key_sql, k, prepare=True)

    return once
