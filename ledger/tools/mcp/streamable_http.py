"""MCP over HTTP: one POST for each message, answered by JSON or by server-sent events.

The addresses are checked and the answers bounded by ``safe_http``. Nothing is read after the
answer has come, so a stream without an end costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

import httpx

from ledger.foundation import http_out
from ledger.tools.mcp import wire
from ledger.tools.mcp.wire import Json, NothingSent, NotProved, NotSpoken

SESSION = "Mcp-Session-Id"
# Statuses that say nothing about which revision a server speaks.
UNAVAILABLE = frozenset({401, 403, 408, 429})
BYE_S = 2.0


class HttpConnection:
    """A server at an address. ``headers`` are our credentials there; callers' never go there."""

    is_local = False

    def __init__(
        self, http: httpx.AsyncClient, address: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._http, self._address = http, address
        self._credentials = dict(headers or {})
        self._session: dict[str, str] = {}

    async def ask(self, message: Json, headers: Mapping[str, str]) -> Json:
        """The result. Raises ``NothingSent, NotProved, ServerError, httpx.HTTPError``."""
        response = await self._post(message, headers)
        try:
            if session := response.headers.get(SESSION):
                self._session = {SESSION: _sendable(session)}
            return await _result_in(response, message["id"])
        finally:
            await response.aclose()

    async def tell(self, message: Json, headers: Mapping[str, str]) -> None:
        """Send a message that has no answer."""
        response = await self._post(message, headers)
        await response.aclose()

    async def bye(self, headers: Mapping[str, str]) -> None:
        """End the session, if there is one and the server lets us."""
        if self._session:
            sent = {**self._credentials, **self._session, **headers}
            try:
                response = await self._http.delete(self._address, headers=sent, timeout=BYE_S)
                await response.aclose()
            except (httpx.HTTPError, TimeoutError):
                return

    async def _post(self, message: Json, headers: Mapping[str, str]) -> httpx.Response:
        request = self._http.build_request(
            "POST",
            self._address,
            content=json.dumps(message, allow_nan=False).encode(),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                **self._credentials,
                **self._session,
                **headers,
            },
        )
        try:
            return await self._http.send(request, stream=True, follow_redirects=False)
        except (http_out.AddressRefused, httpx.ConnectError) as refusal:
            raise NothingSent(f"Nothing was sent: {refusal}") from refusal


def _sendable(session: str) -> str:
    """Raises ``NotProved`` for an id that the protocol does not allow, and no header can carry."""
    if not session.isascii() or not session.isprintable():
        raise NotProved("Its session has an id that cannot be sent back.")
    return session


async def _result_in(response: httpx.Response, number: int) -> Json:
    """Statuses of errors come with a JSON-RPC error, which says more."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream" and response.is_success:
        return await _result_among(response.aiter_bytes(), number)
    message = wire.parsed(await response.aread()) if kind == "application/json" else None
    if response.is_success or wire.is_answer(message, number):
        if message is None:
            raise NotProved(f"It answered {response.status_code}, and no JSON.")
        return wire.result_in(message, number)
    if response.is_client_error and response.status_code not in UNAVAILABLE:
        raise NotSpoken(f"It answered {response.status_code}.")
    raise NotProved(f"It answered {response.status_code}, which proves nothing.")


async def _result_among(pieces: AsyncIterator[bytes], number: int) -> Json:
    events = wire.Events()
    async for piece in pieces:
        for data in events.read(piece):
            message = wire.parsed(data)
            if wire.is_answer(message, number):
                return wire.result_in(message, number)
    raise NotProved("Its stream ended without the answer.")
