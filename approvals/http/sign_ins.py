"""Sign-ins, which cost half a second of a processor each: fair by address, and few at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from approvals.http.pages import Pages, refuse
from ledger.limits import rates

# Of one address so many wait for their turn; more are refused at once.
MOST_OF_ONE = 10
# Then a sign-in goes on without its turn: whoever has it may send its body slowly.
TURN_WITHIN_S = 5.0


class SignIns:
    """Hands sign-ins to ``hashing``, of each address one at a time.

    Those that will be refused without looking at the password go to ``pages``.
    """

    def __init__(self, hashing: Pages, pages: Pages) -> None:
        self._hashing, self._pages = hashing, pages
        self._turns: dict[str, asyncio.Lock] = {}
        self._present: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        network = rates.network_of(str((scope.get("client") or ("",))[0]))
        if rates.has_to_wait(network):
            await self._pages(scope, receive, send)
        elif self._present[network] >= MOST_OF_ONE:
            await refuse(send, HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            async with self._turn(network):
                await self._hashing(scope, receive, send)

    @asynccontextmanager
    async def _turn(self, network: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(network, asyncio.Lock())
        self._present[network] += 1
        has_turn = False
        try:
            try:
                async with asyncio.timeout(TURN_WITHIN_S):
                    has_turn = await turn.acquire()
            except TimeoutError:
                pass
            yield
        finally:
            if has_turn:
                turn.release()
            self._present[network] -= 1
            if not self._present[network]:
                del self._present[network], self._turns[network]
