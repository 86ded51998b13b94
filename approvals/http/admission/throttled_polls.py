"""Polls of clients that end their wait at any answer but 200: held back, where others are refused.

Such a poll reads and has no body, so that it can be asked again until it is answered.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

PATIENT = "/humanlayer/"
LONGEST_S = 20.0  # the clients wait 30
EVERY_S = 2.0
# Held back at once by one process; more are refused like others.
MOST = 5_000
PASSING = frozenset({429, 503})
# In an ASGI scope: it was held back as long as can be, which is limit enough.
HAS_STOOD_BACK = "assent.has_stood_back"


class Patience:
    """``inside``, asked again while it refuses a patient poll for now."""

    def __init__(self, inside: Any, longest_s: float = LONGEST_S, every_s: float = EVERY_S) -> None:
        self._inside, self._longest_s, self._every_s = inside, longest_s, every_s
        self._held = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_patient = scope["type"] == "http" and scope["path"].startswith(PATIENT)
        if not is_patient or scope["method"] != "GET" or self._held >= MOST:
            await self._inside(scope, receive, send)
            return
        self._held += 1
        try:
            for message in await self._answer(scope):
                await send(message)
        finally:
            self._held -= 1

    async def _answer(self, scope: Any) -> list[Any]:
        began = time.monotonic()
        while (left := self._longest_s - (time.monotonic() - began)) > 0:
            response = await self._ask(scope)
            if response[0]["status"] not in PASSING:
                return response
            # Not all at the same instant.
            await asyncio.sleep(min(left, self._every_s * random.uniform(0.8, 1.2)))
        return await self._ask({**scope, HAS_STOOD_BACK: True})

    async def _ask(self, scope: Any) -> list[Any]:
        response: list[Any] = []
        await self._inside(dict(scope), _no_body, _kept_in(response))
        return response


def _kept_in(response: list[Any]) -> Any:
    async def keep(message: Any) -> None:
        response.append(message)

    return keep


async def _no_body() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}
