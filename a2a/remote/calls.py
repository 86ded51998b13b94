"""One exchange with a remote agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from a2a.models import RemoteAgent
from a2a.remote import outbound
from a2a.wire import Connection

R = TypeVar("R")


def call(remote: RemoteAgent, exchange: Callable[[Connection], Awaitable[R]]) -> R:
    """Run one exchange. Raises ``TaskUnknown``, and what httpx, the SDK and ``safe_http`` raise."""

    card = remote.card

    async def run() -> R:
        async with outbound.client(remote.token) as http:
            return await exchange(Connection(http, card))

    return asyncio.run(run())
