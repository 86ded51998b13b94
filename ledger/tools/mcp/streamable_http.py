"""MCP over HTTP: one POST for each message, answered by JSON or by server-sent events.

The addresses are checked and the answers bounded by ``safe_http``. Nothing is read after the
answer has come, so a stream without an end costs nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import httpx

from ledger.foundation import http_out
from ledger.foundation.event_streams import EventReader
from ledger.tools.mcp import wire
from ledger.tools.mcp.wire import Json, NothingSent, NotProved, NotSpoken

SESSION = "Mcp-Session-Id"
# Statuses that say nothing about which revision a server speaks.
UNAVAILABLE = frozenset({401, 403, 408, 429})
BYE_S = 2.0
# Before a stream that has ended is asked for again, whatever the server wishes.
PAUSE_LEAST_S, PAUSE_MOST_S = 0.2, 30.0
MOST_IN_VAIN = 20  # streams in a row that ended without an event of a new id


class HttpConnection:
    """A server at an address. ``headers`` are our credentials there; callers' never go there."""

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
            if not _is_stream(response):
                return _message_in(await response.aread(), response, message["id"])
            streams = _Streams(message["id"])
            answer = await streams.answer_in(response)
        finally:
            await response.aclose()
        while answer is None:
            answer = await self._asked_again(streams, headers)
        return wire.result_in(answer, message["id"])

    async def _asked_again(self, streams: _Streams, headers: Mapping[str, str]) -> Json | None:
        """Go on reading where a stream has ended, as servers may end it that gave its events ids.

        Nothing is called by this. Raises ``NotProved`` where there is nothing to go on from.
        """
        last_id = streams.to_go_on_from()
        wished = streams.events.retry_ms or 0
        await asyncio.sleep(min(max(wished / 1000, PAUSE_LEAST_S), PAUSE_MOST_S))
        again = {"Accept": "text/event-stream", "Last-Event-ID": last_id}
        sent = {**again, **self._credentials, **self._session, **headers}
        request = self._http.build_request("GET", self._address, headers=sent)
        try:
            response = await self._http.send(request, stream=True, follow_redirects=False)
        except (http_out.AddressRefused, httpx.HTTPError) as failure:
            raise NotProved(f"Its stream ended without the answer: {failure}") from failure
        try:
            if not _is_stream(response):
                raise NotProved("Its stream ended without the answer, and does not go on.")
            return await streams.answer_in(response)
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


def _sendable(given: str) -> str:
    """Raises ``NotProved`` for an id that the protocol does not allow, and no header can carry."""
    if not given.isascii() or not given.isprintable():
        raise NotProved("It gave an id that cannot be sent back.")
    return given


def _message_in(text: str | bytes, response: httpx.Response, number: int) -> Json:
    """Statuses of errors come with a JSON-RPC error, which says more."""
    message = wire.parsed(text) if _kind_of(response) == "application/json" else None
    if response.is_success or wire.is_answer(message, number):
        if message is None:
            raise NotProved(f"It answered {response.status_code}, and no JSON.")
        return wire.result_in(message, number)
    if response.is_client_error and response.status_code not in UNAVAILABLE:
        raise NotSpoken(f"It answered {response.status_code}.")
    raise NotProved(f"It answered {response.status_code}, which proves nothing.")


def _is_stream(response: httpx.Response) -> bool:
    return response.is_success and _kind_of(response) == "text/event-stream"


def _kind_of(response: httpx.Response) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


class _Streams:
    """The streams of one request, the later ones of which go on where the one before ended."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.events = EventReader()
        self._bytes = self._in_vain = 0
        self._asked_from = ""

    def to_go_on_from(self) -> str:
        """The id of the last event. Raises ``NotProved`` without one, and without an end."""
        if not (last_id := _sendable(self.events.last_id)):
            raise NotProved("Its stream ended without the answer.")
        self._in_vain = self._in_vain + 1 if last_id == self._asked_from else 0
        if self._in_vain > MOST_IN_VAIN:
            raise NotProved("Its stream ends again and again without anything new.")
        self._asked_from = last_id
        return last_id

    async def answer_in(self, response: httpx.Response) -> Json | None:
        """The message that answers this request; ``None`` if the stream ends before it.

        Events without data only carry an id to ask again from, and other kinds are none of MCP.
        """
        before, self.events = self.events, EventReader()
        self.events.last_id = before.last_id
        async for piece in response.aiter_bytes():
            self._bytes += len(piece)
            if self._bytes > wire.LARGEST:
                raise NotProved(f"Its streams have more than {wire.LARGEST} bytes.")
            for event in self.events.read(piece):
                if event.data and event.kind == "message":
                    message = wire.parsed(event.data)
                    if wire.is_answer(message, self._number):
                        return message  # type: ignore[no-any-return]
        return None
