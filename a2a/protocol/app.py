"""The A2A doors: JSON-RPC 1.0, HTTP+JSON 1.0, and JSON-RPC 0.3 at an address of its own.

Each is there twice: for all skills, and below ``/a2a/skills/<id>`` for one.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from a2a.protocol import fast_path
from a2a.protocol.handler import TaskHub
from a2a.protocol.stream import in_thread
from a2a.wire import sdk
from ledger.agents.callers import caller_with
from ledger.http import parse_json

MAX_DEPTH = 64
NOT_JSON, INVALID_PARAMS = -32700, -32602
VERSION_NOT_SUPPORTED = -32009
V1, V03, REST = "/a2a/v1", "/a2a/v0.3", "/a2a/rest"
OF_ONE_SKILL = re.compile(r"/a2a/skills/([A-Za-z0-9_-]{1,100})(/(?:v1|v0\.3|rest)(?:/.*)?)")
CHALLENGE = (b"www-authenticate", b'Bearer realm="assent"')
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
    "hint": "Send Authorization: Bearer <token>; an operator issues tokens in the admin.",
}


@cache
def application() -> Any:
    """An ASGI application for everything below ``/a2a/v1``, ``/a2a/rest`` and ``/a2a/v0.3``."""
    hub, context = TaskHub(), sdk.CallerContextBuilder()
    v1 = sdk.JsonRpcDispatcher(hub, context).handle_requests
    v03 = sdk.dispatcher_for_v03(hub, context).handle_requests
    routes: list[Any] = []
    for path, endpoint in ((V1, v1), (V03, v03)):
        routes += [Route(path + end, endpoint, methods=["POST"]) for end in ("", "/")]
    routes.append(Mount(REST, routes=sdk.create_rest_routes(hub, context)))
    return Door(Starlette(routes=routes))


def is_ours(path: str) -> bool:
    """Whether the address is one of the protocol's; the cards beside them are pages."""
    path = address_of_all(path)[0]
    return path.rstrip("/") in {V1, V03} or path == REST or path.startswith(f"{REST}/")


def address_of_all(path: str) -> tuple[str, str]:
    """The same address without its skill, and the skill: ``/a2a/skills/book/v1`` is ``/a2a/v1``."""
    found = OF_ONE_SKILL.fullmatch(path)
    return (f"/a2a{found[2]}", found[1]) if found else (path, "")


class Door:
    """Lets in who has a token and a body of bearable size, before anything is parsed."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope = _at_the_address_of_all(scope)
        headers = dict(scope["headers"])
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if not _names_us(headers.get(b"host", b"")):
            await _answer(send, 400, WRONG_HOST)
            return
        if scheme.lower() != "bearer" or not token:
            await _answer(send, 401, UNAUTHORIZED, [CHALLENGE])
            return
        try:
            async with asyncio.timeout(settings.BODY_S):
                body = await _body(receive)
        except TimeoutError:
            await _answer(send, 408, TOO_SLOW, [(b"connection", b"close")])
            return
        except ClientGone:
            return
        if body is None:
            await _answer(send, 413, _too_large())
            return
        said = read(body) if body else None
        if found := await _by_express(scope, said, token.strip(), headers):
            await _send(send, 200, found)
            return
        scope["assent.caller"] = await in_thread(caller_with, token.strip())
        trouble = said if isinstance(said, Trouble) else _version_trouble(scope["path"], headers)
        if scope["assent.caller"] is None:
            await _answer(send, 401, UNAUTHORIZED, [CHALLENGE])
        elif trouble is not None:
            is_rest = scope["path"].startswith(REST)
            await _answer(send, *(_rest_error(trouble) if is_rest else _rpc_error(trouble, said)))
        else:
            await self.inside(scope, _once(body, receive), send)


def _at_the_address_of_all(scope: Any) -> Any:
    """The request as if it came to the address of all skills, with the skill that it is for.

    The version may stand in the query as well as in the header; there it is read first.
    """
    path, skill = address_of_all(scope["path"])
    query = parse_qsl(scope.get("query_string", b"").decode("latin-1"))
    version = next((value for name, value in query if name.lower() == "a2a-version"), None)
    headers = scope["headers"]
    if version is not None:
        headers = [(name, value) for name, value in headers if name != b"a2a-version"]
        headers.append((b"a2a-version", version.encode("latin-1", "replace")))
    here = {"path": path, "raw_path": path.encode(), "headers": headers, "assent.skill": skill}
    return {**scope, **here}


def _names_us(host: bytes) -> bool:
    """As Django checks it for pages: nobody else's name may lead here (DNS rebinding)."""
    domain, _ = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def _version_trouble(path: str, headers: dict[bytes, bytes]) -> Trouble | None:
    """No version means 0.3, says the specification; a minor version only adds."""
    version = headers.get(b"a2a-version", b"").decode("latin-1").strip() or "0.3"
    wanted = "0" if path.rstrip("/") == V03 else "1"
    if re.fullmatch(rf"{wanted}(\.\d+)*", version):
        return None
    detail = (
        f"Version {version[:20]!r} is not spoken here, but {V03[6:] if wanted == '0' else '1.0'}."
    )
    return Trouble(VERSION_NOT_SUPPORTED, detail)


async def _by_express(
    scope: Any, said: Any, token: str, headers: dict[bytes, bytes]
) -> bytes | None:
    if scope["path"].rstrip("/") != V1 or isinstance(said, Trouble):
        return None
    return await fast_path.answer(said, token, headers, scope["assent.skill"])


class ClientGone(Exception):
    """Nobody is there any more to answer."""


async def _body(receive: Any) -> bytes | None:
    """The whole body, or nothing when it is larger than a request may be. Raises ``ClientGone``."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
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
        value = parse_json(body, is_strict=False)
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


def _rpc_error(trouble: Trouble, said: Any) -> tuple[int, dict[str, Any]]:
    error = {"code": trouble.code, "message": trouble.detail}
    request_id = said.get("id") if isinstance(said, dict) else None
    is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return 200, {"jsonrpc": "2.0", "id": request_id if is_id else None, "error": error}


def _rest_error(trouble: Trouble) -> tuple[int, dict[str, Any]]:
    is_version = trouble.code == VERSION_NOT_SUPPORTED
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "VERSION_NOT_SUPPORTED" if is_version else "INVALID_REQUEST",
        "domain": "a2a-protocol.org",
    }
    status = "FAILED_PRECONDITION" if is_version else "INVALID_ARGUMENT"
    error = {"code": 400, "status": status, "message": trouble.detail}
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
