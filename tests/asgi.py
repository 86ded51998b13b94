"""The whole product as an ASGI application in this process, for tests of what waits."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from django.db import connections
from django.test import Client


async def request(method: str, path: str, token: str, **content: Any) -> httpx.Response:
    """Send one request, as the agent with this token."""
    from approvals.asgi import application

    headers = {"Authorization": f"Bearer {token}", **content.pop("headers", {})}
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.request(method, path, headers=headers, timeout=60, **content)


def requested(method: str, path: str, token: str, **content: Any) -> httpx.Response:
    """As ``request``, from a thread without an event loop."""
    try:
        return asyncio.run(request(method, path, token, **content))
    finally:
        connections.close_all()


def token_of(client: Client) -> str:
    """The token that a client of ``tests.agents_at_work.speaking_as`` sends."""
    return str(client.defaults["HTTP_AUTHORIZATION"]).removeprefix("Bearer ")
