"""The A2A endpoints: JSON-RPC 1.0, HTTP+JSON 1.0, and JSON-RPC 0.3 at an address of its own.

Each exists twice: for all skills, and below ``/a2a/skills/<id>`` for one.
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from a2a.protocol import event_streams, failures, fast_path
from a2a.protocol.bodies import VERSION_NOT_SUPPORTED, Fault, parse, read_body, replayed
from a2a.protocol.handler import A2ARequestHandler
from a2a.protocol.stream import callers
from a2a.wire import sdk
from ledger.database.sessions import CONNECTION_LOST
from ledger.http import TOKEN_IS_KNOWN, is_allowed_host

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
    "hint": "Send Authorization: Bearer <token>; an operator issues tokens in the admin.",
}


@cache
def application() -> Any:
    """An ASGI application for everything below ``/a2a/v1``, ``/a2a/rest`` and ``/a2a/v0.3``."""
    handler, context = A2ARequestHandler(), sdk.CallerContextBuilder()
    v1 = sdk.JsonRpcDispatcher(handler, context).handle_requests
    v03 = sdk.dispatcher_for_v03(handler, context).handle_requests
    routes: list[Any] = []
    for path, endpoint in ((V1, v1), (V03, v03)):
        routes += [Route(path + end, endpoint, methods=["POST"]) for end in ("", "/")]
    routes.append(Mount(REST, routes=sdk.create_rest_routes(handler, context)))
    return AuthMiddleware(Starlette(routes=routes))


def is_ours(path: str) -> bool:
    """Whether the path is one of these endpoints; the cards beside them are Django's."""
    path = address_of_all(path)[0]
    return path.rstrip("/") in {V1, V03} or path == REST or path.startswith(f"{REST}/")


def address_of_all(path: str) -> tuple[str, str]:
    """The path without its skill, and the skill: ``/a2a/v1`` and ``x`` of ``/a2a/skills/x/v1``."""
    match = OF_ONE_SKILL.fullmatch(path)
    return (f"/a2a{match[2]}", match[1]) if match else (path, "")


class AuthMiddleware:
    """Authenticates requests and limits their bodies; handles usual ones without the SDK.

    Pure ASGI, as Starlette's ``BaseHTTPMiddleware`` would cost every request a task of its own.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope = _without_skill(scope)
        headers = dict(scope["headers"])
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if not is_allowed_host(headers.get(b"host", b"")):
            response: Response = JSONResponse(WRONG_HOST, 400)
        else:
            is_bearer = scheme.lower() == "bearer"
            refusal = await _refusal(scope, token.strip() if is_bearer else "")
            if refusal is None:
                await self._with_body(scope, receive, send, token.strip(), headers)
                return
            response = refusal
        await response(scope, receive, send)

    async def _with_body(
        self, scope: Any, receive: Any, send: Any, token: str, headers: dict[bytes, bytes]
    ) -> None:
        try:
            async with asyncio.timeout(settings.BODY_S):
                body = await read_body(receive)
        except TimeoutError:
            response = JSONResponse(TOO_SLOW, 408, {"Connection": "close"})
            await response(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            if body is None:
                await _too_large()(scope, receive, send)
            else:
                await self._handle(scope, replayed(body, receive), send, body, token, headers)

    async def _handle(
        self,
        scope: Any,
        receive: Any,
        send: Any,
        body: bytes,
        token: str,
        headers: dict[bytes, bytes],
    ) -> None:
        request = parse(body) if body else None
        is_v1 = scope["path"].rstrip("/") == V1 and not isinstance(request, Fault)
        result: bytes | None = None
        try:
            if is_v1 and len(body) <= fast_path.LARGEST_BODY:
                if await event_streams.answer(request, scope, receive, send, token, headers):
                    return
                result = await fast_path.answer(request, token, headers, scope["assent.skill"])
            caller = await callers.ask(token) if result is None else None
        except Exception as failure:
            await _failure(failure, scope, request)(scope, receive, send)
            return
        if result is not None:
            await _send_json(send, result)
            return
        if caller is None:
            await JSONResponse(UNAUTHORIZED, 401, CHALLENGE)(scope, receive, send)
            return
        fault = request if isinstance(request, Fault) else _version_fault(scope["path"], headers)
        if fault is not None:
            error = _rest_error(fault) if _is_rest(scope) else _rpc_error(fault, request)
            await error(scope, receive, send)
            return
        client = scope.get("client")
        scope["assent.caller"], scope["assent.token"] = caller, token
        scope["assent.address"] = client[0] if client else ""
        await self.app(scope, receive, send)


async def _refusal(scope: Any, token: str) -> Response | None:
    """The answer to a stranger, of whose request nothing is read; ``None``: the token is known."""
    if token and scope.get(TOKEN_IS_KNOWN):
        return None
    try:
        is_known = token != "" and await callers.ask(token) is not None
    except CONNECTION_LOST as failure:
        error = failures.error_of(failure, failures.AUTHENTICATE)
        return failures.response_to(error, None, is_rest=_is_rest(scope))
    return None if is_known else JSONResponse(UNAUTHORIZED, 401, CHALLENGE)


def _is_rest(scope: Any) -> bool:
    return bool(scope["path"].startswith(REST))


def _failure(failure: Exception, scope: Any, request: Any) -> Response:
    """The answer where an operation failed before anything was sent."""
    operation = scope["method"]
    if not _is_rest(scope) and isinstance(request, dict):
        operation = str(request.get("method"))
    error = failures.error_of(failure, operation)
    return failures.response_to(error, request, is_rest=_is_rest(scope))


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


def _version_fault(path: str, headers: dict[bytes, bytes]) -> Fault | None:
    """By the specification no version means 0.3, and a minor version only adds."""
    version = headers.get(b"a2a-version", b"").decode("latin-1").strip() or "0.3"
    major = "0" if path.rstrip("/") == V03 else "1"
    if re.fullmatch(rf"{major}(\.\d+)*", version):
        return None
    supported = V03[6:] if major == "0" else "1.0"
    detail = f"Version {version[:20]!r} is not supported at this address, only {supported}."
    return Fault(VERSION_NOT_SUPPORTED, detail)


def _rpc_error(fault: Fault, request: Any) -> Response:
    error = {"code": fault.code, "message": fault.detail}
    return JSONResponse({"jsonrpc": "2.0", "id": failures.id_of(request), "error": error})


def _rest_error(fault: Fault) -> Response:
    is_version = fault.code == VERSION_NOT_SUPPORTED
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "VERSION_NOT_SUPPORTED" if is_version else "INVALID_REQUEST",
        "domain": "a2a-protocol.org",
    }
    status = "FAILED_PRECONDITION" if is_version else "INVALID_ARGUMENT"
    error = {"code": 400, "status": status, "message": fault.detail, "details": [info]}
    return JSONResponse({"error": error}, 400)


def _too_large() -> Response:
    detail = f"A request has at most {settings.A2A_BODY_MAX} bytes; send references instead."
    error = {"code": -32600, "message": detail}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 413)


async def _send_json(send: Any, body: bytes) -> None:
    """The hot path's response, without Starlette's."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
