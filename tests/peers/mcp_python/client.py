"""Unmodified MCP clients, for tests: says what it sees, one JSON line each.

    python client.py <address> <another address> <token> <2026-07-28|legacy|tasks>

It calls ``pay``, and waits for the outcome as its revision does: by ``assent_wait``, at the other
address, or as a task that its library follows.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

ADDRESS, OTHER, TOKEN, KIND = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
PAYMENT = {"reference": f"R-{KIND}", "amount": "12.00", "assent_reason": "Charged twice."}
# Far less than people take.
HTTP_TIMEOUT_S = 4.0


def say(**seen: Any) -> None:
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()


def client_at(address: str, http: httpx2.AsyncClient) -> Client:
    return Client(streamable_http_client(address, http_client=http), mode=KIND)


async def by_waiting() -> None:
    async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
        async with client_at(ADDRESS, http) as client:
            tools = await client.list_tools()
            say(seen="tools", names=sorted(tool.name for tool in tools.tools))
            meta: Any = {"assent/hold-s": 0}
            called = await client.call_tool("pay", PAYMENT, meta=meta)
            body = called.structured_content
        async with client_at(OTHER, http) as client:
            say(seen=body["status"], id=body["transaction_id"])
            while body["status"] == "pending":
                this = {"transaction_id": body["transaction_id"]}
                body = (await client.call_tool("assent_wait", this)).structured_content
        say(seen=body["status"], receipt=body["receipt"])


async def as_a_task() -> None:
    import fastmcp_tasks.client  # noqa: F401
    from fastmcp import Client as FastClient
    from fastmcp.client.transports import StreamableHttpTransport

    def impatient(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**{**options, "timeout": HTTP_TIMEOUT_S})

    transport = StreamableHttpTransport(ADDRESS, HEADERS, httpx_client_factory=impatient)
    async with FastClient(transport) as client:
        calling = asyncio.create_task(client.call_tool("pay", PAYMENT, raise_on_error=False))
        await asyncio.wait([calling], timeout=2 * HTTP_TIMEOUT_S)
        say(seen="outlasted" if not calling.done() else "too early")
        body = (await calling).structured_content
        say(seen=body["status"], receipt=body["receipt"])


asyncio.run(as_a_task() if KIND == "tasks" else by_waiting())
