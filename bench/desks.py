"""Time until a new row is on every open desk after prepare has returned, and what it costs."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
import uuid
from typing import Any

from bench.engines import bench_agent, bench_person, free_port, web
from bench.usage import cpu_seconds

DESKS = 20
ROWS = 40
MANY, ROWS_FOR_MANY = 1_000, 10
PEOPLE = 50  # who have the many desks open; one of them keeps an agent, and so fetches the rows
ARRIVED_WITHIN_S = 120.0


def measure(number: int = DESKS, rows: int = ROWS, people: int = 1) -> dict[str, float]:
    """Milliseconds until each desk has the row, and the processor time of the web processes."""
    token = bench_agent("propose")
    persons = [bench_person(f"watcher{each}", "approver") for each in range(people)]
    if people > 1:
        _keep_an_agent(persons[0][0])
    port = free_port()
    os.environ["ASSENT_PUBLIC_URL"] = f"http://localhost:{port}"
    cookies = [cookie for _, cookie in persons]
    with web(port) as pids:
        return asyncio.run(
            _measure(port, [cookies[n % people] for n in range(number)], token, rows, pids)
        )


def measure_many() -> dict[str, float]:
    return measure(MANY, ROWS_FOR_MANY, PEOPLE)


def _keep_an_agent(person: Any) -> None:
    from django.db import connection

    from ledger.models import Agent

    Agent.objects.create(tenant_id="bench", slug="kept", name="Kept", kept_by=f"user:{person.pk}")
    connection.close()


async def _measure(
    port: int, cookies: list[str], token: str, rows: int, pids: list[int]
) -> dict[str, float]:
    import httpx

    told: dict[tuple[str, int], float] = {}
    shown: dict[tuple[str, int], float] = {}
    fetched = 0
    limits = httpx.Limits(max_connections=DESKS)
    async with httpx.AsyncClient(
        base_url=f"http://localhost:{port}", limits=limits, timeout=60
    ) as http:

        async def desk(number: int, reader: Any) -> None:
            nonlocal fetched
            while True:
                message = await _message(reader)
                for pk in message["changed"]:
                    told.setdefault((pk, number), time.time())
                    if f"row-{pk}" not in message["rows"]:
                        fetched += 1
                        await _fetch(http, pk, cookies[number])
                    shown.setdefault((pk, number), time.time())

        desks = []
        for number, cookie in enumerate(cookies):
            reader, writer = await _open_socket(port, cookie)
            desks.append((asyncio.create_task(desk(number, reader)), writer))
        await asyncio.sleep(2)
        told.clear()
        shown.clear()
        fetched, used = 0, cpu_seconds(*pids)
        returned: dict[str, float] = {}
        for _ in range(rows):
            answer = await http.post(
                "/api/v1/transactions",
                json={"tool": "measured", "arguments": {"name": uuid.uuid4().hex}},
                headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid.uuid4().hex},
            )
            returned[answer.json()["transaction_id"]] = time.time()
            await asyncio.sleep(max(0.5, len(cookies) / 500))
        async with asyncio.timeout(ARRIVED_WITHIN_S):
            while len(shown) < rows * len(cookies):
                await asyncio.sleep(0.1)
        used = cpu_seconds(*pids) - used
        for task, writer in desks:
            task.cancel()
            writer.close()
    waits = sorted((at - returned[pk]) * 1000 for (pk, _), at in told.items())
    drawn = sorted((at - returned[pk]) * 1000 for (pk, _), at in shown.items())
    return {
        "told p50 ms": waits[len(waits) // 2],
        "told p99 ms": waits[int(len(waits) * 0.99)],
        "row there p50 ms": drawn[len(drawn) // 2],
        "row there p99 ms": drawn[int(len(drawn) * 0.99)],
        "rows fetched, of 100": 100 * fetched / len(shown),
        "CPU s a row, all desks": used / rows,
    }


async def _fetch(http: Any, pk: str, cookie: str) -> None:
    """As a browser does: a connection that the server has closed meanwhile is opened anew."""
    import httpx

    for _ in range(3):
        try:
            headers = {"HX-Request": "true", "Cookie": f"assent_session={cookie}"}
            await http.get(f"/rows?id={pk}", headers=headers)
            return
        except httpx.TransportError:
            continue


async def _open_socket(port: int, cookie: str) -> tuple[Any, Any]:
    """A WebSocket by hand (RFC 6455); it only listens."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET /ws/desk HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Origin: http://localhost:{port}\r\nCookie: assent_session={cookie}\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head.split(b"\r\n")[0], head
    return reader, writer


async def _message(reader: Any) -> dict[str, Any]:
    while True:
        first, length = await reader.readexactly(2)
        if length == 126:
            length = int.from_bytes(await reader.readexactly(2), "big")
        elif length == 127:
            length = int.from_bytes(await reader.readexactly(8), "big")
        payload = await reader.readexactly(length)
        if first & 0x0F == 1:
            return dict(json.loads(payload))
