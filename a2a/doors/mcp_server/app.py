"""The endpoint ``/mcp`` as an ASGI application: who asks, from where, and how it is answered."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from a2a.doors.mcp_server import answers, methods
from a2a.doors.mcp_server.answers import Events, error_message, result_message, send_json
from a2a.doors.mcp_server.requests import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    Fault,
    Headers,
    Incoming,
    id_of,
    read,
)
from a2a.doors.mcp_server.resource import RESOURCE, challenge
from a2a.doors.mcp_server.statuses import Standing
from a2a.doors.mcp_server.waiting import Client
from ledger.agents import callers_with
from ledger.api.http import database_away, is_allowed_host, parse_json, token_in
from ledger.api.waiting import ClientGone, Send, read_body, unless_gone
from ledger.errors import DatabaseAway, LedgerError, NotAllowed
from ledger.foundation.batches import Batcher, in_thread
from ledger.foundation.postgres.sessions import CONNECTION_LOST

logger = logging.getLogger(__name__)
PATHS = frozenset({"/mcp", "/mcp/"})
LARGEST_ON_LOOP = 16 * 1024  # bytes; what is larger is parsed in a thread
REFUSED = -32000  # of our own; the specification leaves these codes to servers
UNAUTHORIZED = Fault(REFUSED, "The bearer token is missing, unknown, revoked or expired.")
UNREADABLE = Fault(PARSE_ERROR, "The body is not JSON that can be read.")
_callers = Batcher(partial(callers_with, resource=RESOURCE))


async def application(scope: Any, receive: Any, send: Send) -> None:
    headers = dict(scope["headers"])
    if (refusal := _refused(headers)) is not None:
        await send_json(send, error_message(None, refusal), 403)
        return
    token = token_in(headers.get(b"authorization", b""))
    try:
        caller = await _callers.ask(token) if token else None
    except CONNECTION_LOST as failure:
        await _away(send, None, database_away(failure, "MCP", is_read=True))
        return
    if caller is None:
        body = error_message(None, UNAUTHORIZED)
        told = challenge("invalid_token" if token else "")
        await send_json(send, body, 401, www_authenticate=told)
    elif scope["method"] != "POST":
        # There is no session, and so no stream of its own and nothing to end.
        fault = Fault(REFUSED, "Send messages with POST.")
        await send_json(send, error_message(None, fault), 405, allow="POST")
    else:
        address = str((scope.get("client") or ("",))[0])
        await _post(Client(caller, token, address), headers, receive, send)


def is_ours(path: str) -> bool:
    return path in PATHS


async def _post(client: Client, headers: Headers, receive: Any, send: Send) -> None:
    try:
        async with asyncio.timeout(settings.BODY_S):
            body = await read_body(receive, _largest_body())
    except TimeoutError:
        await _refuse_body(send, 408, "The body did not come in time. Nothing was done.")
    except ClientGone:
        return
    else:
        if body is None:
            await _refuse_body(send, 413, f"A message has at most {_largest_body()} bytes here.")
            return
        try:
            value = await _parsed(body)
        except (ValueError, RecursionError):
            await send_json(send, error_message(None, UNREADABLE), 400)
        else:
            del body  # nobody who waits holds what was sent
            await _read_and_answer(value, client, headers, receive, send)


async def _refuse_body(send: Send, status: int, detail: str) -> None:
    body = error_message(None, Fault(INVALID_REQUEST, detail))
    await send_json(send, body, status, connection="close")


async def _read_and_answer(
    value: Any, client: Client, headers: Headers, receive: Any, send: Send
) -> None:
    try:
        message = read(value, headers)
    except Fault as fault:
        await send_json(send, error_message(id_of(value), fault), 400)
        return
    if message.id is None:
        await send_json(send, None, 202)  # a notification; nothing here follows from one
        return
    await _answer(message, client, headers, receive, send)


async def _answer(
    message: Incoming, client: Client, headers: Headers, receive: Any, send: Send
) -> None:
    stream = _Stream(message, send, b"text/event-stream" in headers.get(b"accept", b""))
    try:
        result = await unless_gone(receive, methods.answer(message, client, stream.tell))
    except (ClientGone, TimeoutError):
        logger.info("an MCP client left before %s was answered", message.method[:80])
    except Fault as fault:
        await stream.end(error_message(message.id, fault), _status(message, fault))
    except LedgerError as refusal:
        text = f"{refusal.title}. {refusal.detail} {refusal.hint}"
        refused = Fault(REFUSED, text, {"code": refusal.code})
        await stream.end(error_message(message.id, refused), refusal.status, **_told(refusal))
    except CONNECTION_LOST as failure:
        away = database_away(failure, f"MCP {message.method[:80]}", is_read=False)
        gone = Fault(INTERNAL_ERROR, f"{away.title}. {away.detail}", {"code": away.code})
        await stream.end(error_message(message.id, gone), 503)
    except Exception:
        logger.exception("unexpected failure of MCP %s", message.method[:80])
        ours = Fault(INTERNAL_ERROR, "Assent failed; it was logged. Repeat the request.")
        await stream.end(error_message(message.id, ours), 500)
    else:
        await stream.end(result_message(message.id, result))


class _Stream:
    """One answer: JSON, unless its client had to be told meanwhile that it waits."""

    def __init__(self, message: Incoming, send: Send, takes_events: bool) -> None:
        self._send, self._takes_events = send, takes_events
        self._token = message.progress_token
        self._events, self._progress = Events(send), 0

    async def tell(self, standing: Standing) -> None:
        """Say that the call still waits; progress only to those who asked for it."""
        if not self._takes_events:
            return
        if self._token is None:
            await self._events.quiet()
            return
        self._progress += 1
        params = {
            "progressToken": self._token,
            "progress": self._progress,
            "message": standing.sentence,
        }
        await self._events.message(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        )

    async def end(self, body: Any, status: int = 200, **headers: str) -> None:
        if not self._events.has_begun:
            await send_json(self._send, body, status, **headers)
            return
        await self._events.message(body)
        await self._events.close()


def _told(refusal: LedgerError) -> dict[str, str]:
    """Headers: with which scopes whoever signed in would be let do it."""
    lacks = isinstance(refusal, NotAllowed) and "scope" in refusal.extra
    return {"www_authenticate": challenge("insufficient_scope")} if lacks else {}


def _status(message: Incoming, fault: Fault) -> int:
    return answers.STATUS.get(fault.code, 200) if message.is_modern else 200


def _refused(headers: Headers) -> Fault | None:
    """Against DNS rebinding: the Host is ours, and a page that asks is of ours."""
    if not is_allowed_host(headers.get(b"host", b"")):
        return Fault(REFUSED, "The Host header names no address of this Assent.")
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1") not in _our_origins():
        return Fault(REFUSED, "Pages of other origins may not call this address.")
    return None


def _our_origins() -> set[str]:
    parts = [urlsplit(url) for url in (settings.PUBLIC_URL, settings.LIVE_URL)]
    return {f"{part.scheme}://{part.netloc}" for part in parts}


def _largest_body() -> int:
    return 2 * int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


async def _parsed(body: bytes) -> Any:
    if len(body) <= LARGEST_ON_LOOP:
        return parse_json(body)
    return await in_thread(parse_json, body)


async def _away(send: Send, request_id: str | int | None, away: DatabaseAway) -> None:
    fault = Fault(INTERNAL_ERROR, f"{away.title}. {away.detail}", {"code": away.code})
    body = error_message(request_id, fault)
    await send_json(send, body, 503, retry_after=str(away.retry_after_s))
