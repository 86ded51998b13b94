"""How many proposals a second, beside the bare commit limit of the same rows."""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from bench.engines import free_port, web

SECONDS = 5.0


def measure(connections: int) -> dict[str, float]:
    """Requests (or commits) per second and p50/p99 in milliseconds, in one run."""
    from django.db import connection

    from ledger.models import Agent, AgentToken, Tenant

    tenant, _ = Tenant.objects.get_or_create(
        slug="bench", defaults={"name": "Bench", "tools": ["*"]}
    )
    agent, _ = Agent.objects.get_or_create(tenant=tenant, slug="bench", defaults={"name": "Bench"})
    _, token = AgentToken.issue(agent, scopes=["propose"])
    statements = _bare_statements()
    info = connection.get_connection_params()
    dsn = {
        name: info[name]
        for name in ("dbname", "user", "password", "host", "port")
        if info.get(name)
    }
    connection.close()

    figures: dict[str, float] = {}
    bare = _load(connections, _bare_client, (dsn, statements, False))
    single = _load(connections, _bare_client, (dsn, statements, True))
    port = free_port()
    with web(port):
        _load(connections, _http_client, (port, token), seconds=1.5)  # warm up
        ours = _load(connections, _http_client, (port, token))
    figures["prepare/s"], figures["p50 ms"], figures["p99 ms"] = ours
    figures["bare, a statement a table/s"] = bare[0]
    figures["bare, one statement/s"] = single[0]
    figures["ratio"] = ours[0] / bare[0]
    figures["ratio to one statement"] = ours[0] / single[0]
    return figures


Client = Callable[..., Callable[[], None]]


def _load(
    connections: int, client: Client, arguments: tuple[Any, ...], seconds: float = SECONDS
) -> tuple[float, float, float]:
    """The same client in two processes with half of the connections each."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    halves = [
        context.Process(target=_half, args=(connections // 2, client, arguments, seconds, results))
        for _ in range(2)
    ]
    for half in halves:
        half.start()
    times = [span for _ in halves for span in results.get()]
    for half in halves:
        half.join()
    times.sort()
    return (
        len(times) / seconds,
        times[len(times) // 2] * 1000,
        times[int(len(times) * 0.99)] * 1000,
    )


def _half(
    connections: int, client: Client, arguments: tuple[Any, ...], seconds: float, results: Any
) -> None:
    spans: list[float] = []
    ready = threading.Barrier(connections)

    def run() -> None:
        once = client(*arguments)
        ready.wait()
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            once()
            spans.append(time.perf_counter() - began)

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(spans)


def _http_client(port: int, token: str) -> Callable[[], None]:
    """A keep-alive connection that says and reads just what is needed."""
    wire = socket.create_connection(("127.0.0.1", port))
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = (
        "POST /api/v1/transactions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
    )

    def once() -> None:
        name = uuid.uuid4().hex
        body = json.dumps({"tool": "measured", "arguments": {"name": name}, "reason": "bench"})
        wire.sendall(
            f"{head}Idempotency-Key: {name}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += wire.recv(65536)
        headers, _, rest = answer.partition(b"\r\n\r\n")
        assert headers.startswith(b"HTTP/1.1 201"), answer
        length = int(headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(rest) < length:
            rest += wire.recv(65536)

    return once


def _bare_statements() -> list[tuple[str, list[Any]]]:
    """The very rows of one prepare, as INSERTs with the values that the ledger would write."""
    from django.db import connection

    from ledger.api.rendering import render_token
    from ledger.database import inserts
    from ledger.models import Event, IdempotencyKey, Transaction
    from ledger.principals import Surface, agent
    from ledger.transactions import coordinator
    from ledger.transactions.coordinator import Proposal

    key = uuid.uuid4().hex
    answer = coordinator.prepare(
        Proposal("measured", {"name": key}, reason="bench"),
        by=agent("bench", "bench", "Bench"),
        tenant="bench",
        key=key,
        via=Surface.REST,
        render=render_token,
    )
    rows = [
        Transaction.objects.get(pk=answer.transaction_id),
        Event.objects.get(transaction_id=answer.transaction_id),
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
    """What can be sent to another process: psycopg's wrappers cannot."""
    return json.dumps(value.obj) if hasattr(value, "obj") else value


def _bare_client(
    dsn: dict[str, Any], statements: list[tuple[str, list[Any]]], in_one: bool
) -> Callable[[], None]:
    import psycopg

    connection = psycopg.connect(**dsn, autocommit=True)
    (tx_sql, tx), (event_sql, event), (key_sql, key) = statements
    old_id = str(tx[0])
    operation_key = next(value for value in tx if str(value).startswith("bench:"))
    single = f"WITH t AS ({tx_sql}), e AS ({event_sql}) {key_sql}"

    def fresh(values: list[Any], new_id: uuid.UUID) -> list[Any]:
        return [
            new_id
            if str(value) == old_id
            else f"bench:bench:{new_id.hex}"
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
