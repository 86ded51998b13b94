"""The A2A doors: JSON-RPC 1.0, HTTP+JSON 1.0, and JSON-RPC 0.3 at an address of its own."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from a2a import wire
from a2a.transports import express
from a2a.transports.protocol import TaskHub
from a2a.transports.stream import in_thread
from ledger.callers import caller_with

MAX_DEPTH = 64
NOT_JSON, INVALID_PARAMS = -32700, -32602
V1 = "/a2a/v1"
CHALLENGE = (b"www-authenticate", b'Bearer realm="assent"')
UNAUTHORIZED = {
    "error": "not_authenticated",
    "detail": "The bearer token is missing, unknown, revoked or expired.",
    "hint": "Send Authorization: Bearer <token>; an operator issues tokens in the admin.",
}


@cache
def application() -> Any:
    """An ASGI application for everything below ``/a2a/v1``, ``/a2a/rest`` and ``/a2a/v0.3``."""
    hub, context = TaskHub(), wire.CallerContextBuilder()
    v1 = wire.JsonRpcDispatcher(hub, context).handle_requests
    v03 = wire.dispatcher_for_v03(hub, context).handle_requests
    routes: list[Any] = []
    for path, endpoint in (("/a2a/v1", v1), ("/a2a/v0.3", v03)):
        routes += [Route(path + end, endpoint, methods=["POST"]) for end in ("", "/")]
    routes.append(Mount("/a2a/rest", routes=wire.create_rest_routes(hub, context)))
    return Door(Starlette(routes=routes))


class Door:
    """Lets in who has a token and a body of bearable size, before anything is parsed."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            await _answer(send, 401, UNAUTHORIZED, [CHALLENGE])
            return
        body = await _body(receive)
        if body is None:
            await _answer(send, 413, _too_large())
            return
        said = read(body) if body else None
        if found := await _by_express(scope["path"], said, token.strip(), headers):
            await _send(send, 200, found)
            return
        scope["assent.caller"] = await in_thread(caller_with, token.strip())
        if scope["assent.caller"] is None:
            await _answer(send, 401, UNAUTHORIZED, [CHALLENGE])
        elif isinstance(said, Trouble):
            is_rest = scope["path"].startswith("/a2a/rest")
            await _answer(send, *(_rest_error(said) if is_rest else _rpc_error(said)))
        else:
            await self.inside(scope, _once(body, receive), send)


async def _by_express(
    path: str, said: Any, token: str, headers: dict[bytes, bytes]
) -> bytes | None:
    if path.rstrip("/") != V1 or isinstance(said, Trouble):
        return None
    return await express.answer(said, token, headers)


async def _body(receive: Any) -> bytes | None:
    """The whole body, or nothing when it is larger than a request may be."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > settings.A2A_BODY_MAX:
            return None
        if not message.get("more_body"):
            return b"".join(chunks)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a body is not handed to the protocol's parser."""

    code: int  # of JSON-RPC
    detail: str


def read(body: bytes) -> Any:
    """The body as JSON; ``Trouble`` for what the protocol's own parser would stumble over.

    Its numbers are doubles; an integer that a double cannot hold would lose digits.
    """
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return Trouble(NOT_JSON, "The body is not JSON that can be read.")
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            return Trouble(INVALID_PARAMS, f"It is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(item, dict):
            stack.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            stack.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, int) and abs(item) > 2**53:
            return Trouble(INVALID_PARAMS, "An integer beyond 2^53 loses digits: send it as text.")
        elif isinstance(item, float) and not math.isfinite(item):
            return Trouble(INVALID_PARAMS, "A number is larger than a double can be.")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _rpc_error(trouble: Trouble) -> tuple[int, dict[str, Any]]:
    error = {"code": trouble.code, "message": trouble.detail}
    return 200, {"jsonrpc": "2.0", "id": None, "error": error}


def _rest_error(trouble: Trouble) -> tuple[int, dict[str, Any]]:
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "INVALID_REQUEST",
        "domain": "a2a-protocol.org",
    }
    error = {"code": 400, "status": "INVALID_ARGUMENT", "message": trouble.detail}
    return 400, {"error": {**error, "details": [info]}}


def _once(body: bytes, receive: Any) -> Any:
    """The body again, then whatever else the client does (it may leave)."""
    is_read = False

    async def read() -> Any:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return read


def _too_large() -> dict[str, Any]:
    detail = f"A request has at most {settings.A2A_BODY_MAX} bytes; send references instead."
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": detail}}


async def _answer(
    send: Any, status: int, said: dict[str, Any], headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    await _send(send, status, json.dumps(said).encode(), headers)


async def _send(
    send: Any, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    size = str(len(body)).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", size), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
