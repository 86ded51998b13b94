"""The A2A endpoints: JSON-RPC 1.0, HTTP+JSON 1.0, and JSON-RPC 0.3 at an address of its own.

Each exists twice: for all skills, and below ``/a2a/skills/<id>`` for one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, Router

from a2a.protocol import event_streams, operations
from a2a.protocol.bindings import ROUTES, Binding, HttpJson, JsonRpc, JsonRpcOfV03
from a2a.protocol.calls import Call
from a2a.protocol.errors import VERSION_NOT_SUPPORTED, NotAuthenticated, ProtocolError, error_of
from a2a.protocol.event_streams import STREAMING
from a2a.protocol.operations import OPERATIONS
from a2a.protocol.stream import callers
from ledger.api.http import TOKEN_IS_KNOWN, is_allowed_host, token_in, unquoted
from ledger.api.waiting import ClientGone, read_body
from ledger.foundation.postgres.sessions import CONNECTION_LOST

V1, V03, REST = "/a2a/v1", "/a2a/v0.3", "/a2a/rest"
OF_ONE_SKILL = re.compile(r"/a2a/skills/([A-Za-z0-9_-]{1,100})(/(?:v1|v0\.3|rest)(?:/.*)?)")
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="assent"'}
WRONG_HOST = {
    "error": "wrong_host",
    "detail": "The Host header names no address of this Assent.",
    "hint": "Use the address of the agent card. Operators allow others in ASSENT_ALLOWED_HOSTS.",
}
TOO_SLOW = {
    "error": "body_too_slow",
    "detail": "The body did not come in time; nothing was done.",
    "hint": "Send as many bytes as Content-Length says, without a pause, and repeat the request.",
}
UNAUTHORIZED = {
    "error": "not_authenticated",
    "detail": "The bearer token is missing, unknown, revoked or expired.",
    "hint": "Send Authorization: Bearer <token>; an operator issues tokens in Settings, Agents.",
}


@cache
def application() -> Any:
    """An ASGI application for everything below ``/a2a/v1``, ``/a2a/rest`` and ``/a2a/v0.3``."""
    rpc = {V1: Endpoint(JsonRpc), V03: Endpoint(JsonRpcOfV03)}
    routes: list[Any] = [
        Route(path + end, endpoint, methods=["POST"])
        for path, endpoint in rpc.items()
        for end in ("", "/")
    ]
    rest = [
        Route(path, Endpoint(partial(HttpJson, operation)), methods=[method])
        for method, path, operation in ROUTES
    ]
    routes.append(Mount(REST, routes=[*rest, Mount("/{tenant}", routes=rest)]))
    router = Router(routes)

    async def routed(scope: Any, receive: Any, send: Any) -> None:
        # Starlette's routes cost a tenth of a read, and nearly all requests need none.
        endpoint = rpc.get(scope["path"].rstrip("/")) if scope["method"] == "POST" else None
        await (endpoint or router)(scope, receive, send)

    return Doorkeeper(routed)


def is_ours(scope: Any) -> bool:
    """True if the request is for one of these endpoints; the cards beside them are Django's."""
    path = address_of_all(scope["path"])[0]
    if path.rstrip("/") == V03 and scope["method"] in {"GET", "HEAD"}:
        return False  # the card
    return path.rstrip("/") in {V1, V03} or path == REST or path.startswith(f"{REST}/")


def address_of_all(path: str) -> tuple[str, str]:
    """The path without its skill, and the skill: ``/a2a/v1`` and ``x`` of ``/a2a/skills/x/v1``."""
    match = OF_ONE_SKILL.fullmatch(path)
    return (f"/a2a{match[2]}", match[1]) if match else (path, "")


class Doorkeeper:
    """Authenticates requests and reads their bodies within limits, before they are routed."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope = _without_skill(scope)
        headers = scope["assent.headers"] = dict(scope["headers"])
        token = token_in(headers.get(b"authorization", b""))
        refusal = await _refusal(scope, headers, token)
        if refusal is None:
            try:
                async with asyncio.timeout(settings.BODY_S):
                    body = await read_body(receive, settings.A2A_BODY_MAX)
            except TimeoutError:
                refusal = JSONResponse(TOO_SLOW, 408, {"Connection": "close"})
            except ClientGone:
                return
            else:
                refusal = _too_large() if body is None else None
                scope |= {"assent.token": token, "assent.body": body}
        await (refusal or self._inside)(scope, receive, send)


class Endpoint:
    """Answers the requests of a binding; with HTTP+JSON, those of one operation."""

    def __init__(self, binding: Callable[[], Binding]) -> None:
        self._binding = binding

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        binding, call = self._binding(), None
        try:
            call = _call(binding, scope)
            if call.operation in STREAMING:
                await event_streams.answer(call, binding, receive, send)
            else:
                result = binding.result(call.operation, await operations.answer(call))
                await _send_json(send, result, binding.media_type)
        except NotAuthenticated:
            await JSONResponse(UNAUTHORIZED, 401, CHALLENGE)(scope, receive, send)
        except Exception as failure:
            operation = call.operation if call else scope["method"]
            is_read = call is not None and OPERATIONS[operation].is_read
            error = binding.error(error_of(failure, operation, is_read=is_read))
            await error(scope, receive, send)


def _call(binding: Binding, scope: Any) -> Call:
    """The call of a request. Raises ``ProtocolError``."""
    headers, client = scope["assent.headers"], scope.get("client")
    operation, params = binding.read(scope["assent.body"], scope)
    _refuse_version(binding.version, headers)
    return Call(
        operation=operation,
        params=params,
        token=scope["assent.token"],
        skill=scope["assent.skill"],
        key=unquoted(headers.get(b"idempotency-key", b"").decode("latin-1")),
        client=str(client[0]) if client else "",
        size=len(scope["assent.body"]),
    )


async def _refusal(scope: Any, headers: dict[bytes, bytes], token: str) -> Response | None:
    """The answer to a stranger, of whose request nothing is read; ``None``: the token is known."""
    if not is_allowed_host(headers.get(b"host", b"")):
        return JSONResponse(WRONG_HOST, 400)
    if token and scope.get(TOKEN_IS_KNOWN):
        return None
    try:
        is_known = token != "" and await callers.ask(token) is not None
    except CONNECTION_LOST as failure:
        binding = HttpJson("") if scope["path"].startswith(REST) else JsonRpc()
        return binding.error(error_of(failure, "authentication", is_read=True))
    return None if is_known else JSONResponse(UNAUTHORIZED, 401, CHALLENGE)


def _without_skill(scope: Any) -> Any:
    """The request as if it were for all skills, with its skill beside it.

    A version in the query wins over the one in the header.
    """
    path, skill = address_of_all(scope["path"])
    query = parse_qsl(scope.get("query_string", b"").decode("latin-1"))
    version = next((value for name, value in query if name.lower() == "a2a-version"), None)
    headers = scope["headers"]
    if version is not None:
        headers = [(name, value) for name, value in headers if name != b"a2a-version"]
        headers.append((b"a2a-version", version.encode("latin-1", "replace")))
    changes = {"path": path, "raw_path": path.encode(), "headers": headers, "assent.skill": skill}
    return {**scope, **changes}


def _refuse_version(supported: str, headers: dict[bytes, bytes]) -> None:
    """By the specification no version means 0.3, and a minor version only adds."""
    version = headers.get(b"a2a-version", b"").decode("latin-1").strip() or "0.3"
    major = supported.partition(".")[0]
    if not re.fullmatch(rf"{major}(\.\d+)*", version):
        detail = f"Version {version[:20]!r} is not supported at this address, only {supported}."
        raise ProtocolError(VERSION_NOT_SUPPORTED, detail)


def _too_large() -> Response:
    detail = f"A request has at most {settings.A2A_BODY_MAX} bytes; send references instead."
    error = {"code": -32600, "message": detail}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 413)


async def _send_json(send: Any, body: bytes, media_type: bytes) -> None:
    """A response without Starlette's, which costs more."""
    headers = [
        (b"content-type", media_type),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
