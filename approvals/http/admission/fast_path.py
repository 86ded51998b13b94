"""Requests of agents that are answered without Django, with the headers of its middleware."""

from __future__ import annotations

from typing import Any

from approvals.http.admission.answers import Headers, headers_of_middleware
from ledger.api.fast import fast_path
from ledger.api.fast.fast_path import Request, Response
from ledger.api.http import HAS_WAITED, TOKEN_IS_KNOWN, is_allowed_host

LARGEST_BODY = 16 * 1024  # bytes; what is larger is parsed in a thread
PROTOCOLS = {None: None, b"http": "http", b"https": "https"}


async def respond(scope: Any, body: bytes) -> Response | None:
    """The whole response, or ``None``: then the request has to go to its view.

    A request with a header twice, or with a query that is not that of a long-poll, is not of the
    usual form; and nothing that a stranger sends is parsed on the event loop.
    """
    if not scope.get(TOKEN_IS_KNOWN) or len(body) > LARGEST_BODY:
        return None
    has_waited: bool | None = scope.get(HAS_WAITED)
    is_query = scope.get("query_string") and has_waited is None
    if is_query or not fast_path.is_ours(scope["path"]):
        return None
    headers = dict(scope["headers"])
    added = _added(scope, headers)
    is_usual = len(headers) == len(scope["headers"]) and is_allowed_host(headers.get(b"host", b""))
    if added is None or not is_usual:
        return None
    request = Request(scope["method"], scope["path"], headers, body, bool(has_waited))
    response = await fast_path.respond(request)
    if response is None:
        return None
    length = (b"content-length", str(len(response.body)).encode())
    own = {name for name, _ in response.headers}
    further = [each for each in added if each[0] not in own]
    return response._replace(headers=[*response.headers, length, *further])


def _added(scope: Any, headers: dict[bytes, bytes]) -> Headers | None:
    forwarded = headers.get(b"x-forwarded-proto")
    if forwarded not in PROTOCOLS:
        return None
    return headers_of_middleware(scope.get("scheme", "http"), PROTOCOLS[forwarded])
