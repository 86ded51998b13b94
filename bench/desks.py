"""Time until a new row is on every open desk after prepare has returned."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
import uuid
from typing import Any

from bench.engines import bench_agent, bench_person, free_port, web

DESKS = 20
ROWS = 40
ARRIVED_WITHIN_S = 60.0


def measure() -> dict[str, float]:
    """Milliseconds until the last desk has received the signal and fetched the row."""

    token = bench_agent("propose")
    _user, cookie = bench_person("watcher", "viewer")
    port = free_port()
    os.environ["ASSENT_PUBLIC_URL"] = f"http://localhost:{port}"
    with web(port):
        return asyncio.run(_measure(port, cookie, token))


async def _measure(port: int, cookie: str, token: str) -> dict[str, float]:
    import httpx

    received: dict[tuple[str, int], float] = {}
    shown: dict[tuple[str, int], float] = {}
    base = f"http://localhost:{port}"
    limits = httpx.Limits(max_connections=DESKS)
    async with httpx.AsyncClient(
        base_url=base, cookies={"assent_session": cookie}, limits=limits
    ) as http:

        async def desk(number: int) -> None:
            reader, _writer = await _open_socket(port, cookie)
            while True:
                for pk in (await _message(reader))["changed"]:
                    received.setdefault((pk, number), time.time())
                    await _fetch(http, pk)
                    shown.setdefault((pk, number), time.time())

        desks = [asyncio.create_task(desk(number)) for number in range(DESKS)]
        await asyncio.sleep(1.5)
        received.clear()
        shown.clear()
        returned: dict[str, float] = {}
        for _ in range(ROWS):
            answer = await http.post(
                "/api/v1/transactions",
                json={"tool": "measured", "arguments": {"name": uuid.uuid4().hex}},
                headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid.uuid4().hex},
            )
            returned[answer.json()["transaction_id"]] = time.time()
            await asyncio.sleep(0.5)
        async with asyncio.timeout(ARRIVED_WITHIN_S):
            while len(shown) < ROWS * DESKS:
                await asyncio.sleep(0.1)
        for task in desks:
            task.cancel()
    told = sorted((at - returned[pk]) * 1000 for (pk, _), at in received.items())
    drawn = sorted((at - returned[pk]) * 1000 for (pk, _), at in shown.items())
    return {
        "told p50 ms": told[len(told) // 2],
        "told p99 ms": told[int(len(told) * 0.99)],
        "row fetched p50 ms": drawn[len(drawn) // 2],
        "row fetched p99 ms": drawn[int(len(drawn) * 0.99)],
    }


async def _fetch(http: Any, pk: str) -> None:
    """As a browser does: a connection that the server has closed meanwhile is opened anew."""
    import httpx

    for _ in range(3):
        try:
            await http.get(f"/rows?id={pk}", headers={"HX-Request": "true"})
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
