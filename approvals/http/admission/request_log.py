"""Each request has an id, in its answer and on every line of the log that it causes, and one line.

A client may choose the id, to find its requests here. It is one span of a trace, too.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import SpanKind
from uuid_utils import uuid7

from approvals.http.log_lines import escaped, without_links
from ledger.foundation.telemetry import log_context, tracing
from ledger.foundation.telemetry.counters import Timed

logger = logging.getLogger("assent.requests")

HEADER = b"request-id"
CHOSEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# Asked for too often, and by pages, to be worth a line.
UNTOLD = ("/static/",)
LONGEST = 500  # characters of a path: a line that is longer than a pipe takes at once is torn
NO_ANSWER = 0  # the client was gone, or nothing answered
PARTS = (
    *(("/api/", "rest"), ("/a2a", "a2a"), ("/mcp", "mcp"), ("/humanlayer/", "humanlayer")),
    *(
        ("/slack/", "slack"),
        ("/scim/", "scim"),
        ("/static/", "static"),
        ("/log/", "log"),
        ("/sign-in/", "sign_in"),
    ),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUESTS = "assent_http_request_seconds"
_requests = Timed(
    REQUESTS,
    "Requests over HTTP, from their first byte to the end of the answer.",
    *("part", "method", "status"),
)


class RequestLog:
    """``inside``, with an id and a line for each request. Query strings are not logged."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request_id = _chosen_id(scope) or uuid7().hex.encode()
        statuses: list[int] = []

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                message = {**message, "headers": [*message["headers"], (HEADER, request_id)]}
            await send(message)

        with log_context.about(request_id=request_id.decode()):
            if scope["type"] == "http":
                with _told(scope, request_id.decode(), statuses):
                    await self._inside(scope, receive, answer)
            else:
                await self._inside(scope, receive, answer)


@contextmanager
def _told(scope: Any, request_id: str, statuses: list[int]) -> Iterator[None]:
    """A span and a line of what happens in this block, with the first of the statuses."""
    begin = time.monotonic()
    attributes = {
        "http.request.method": _method_of(scope),
        "url.path": _path_of(scope),
        "assent.request_id": request_id,
    }
    name = f"{_method_of(scope)} {_part_of(scope)}"
    within = _header(scope, b"traceparent").decode("latin-1")
    with tracing.span(name, attributes, within=within, kind=SpanKind.SERVER) as span:
        log_context.note(trace_id=tracing.trace_id())
        try:
            yield
        finally:
            status = statuses[0] if statuses else NO_ANSWER
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                tracing.failed(span)
            _tell(scope, status, time.monotonic() - begin)


def _tell(scope: Any, status: int, seconds: float) -> None:
    count_request(scope, status, seconds)
    if scope["path"].startswith(UNTOLD):
        return
    told = (_method_of(scope), _path_of(scope), status, round(seconds * 1000))
    facts = dict(zip(("method", "path", "status", "milliseconds"), told, strict=True))
    logger.info("%s %s %s in %s ms", *told, extra={"facts": facts})


def count_request(scope: Any, status: int, seconds: float) -> None:
    """Few values of each label, whatever strangers ask for."""
    _requests.took(seconds, _part_of(scope), _method_of(scope), str(status))


def _part_of(scope: Any) -> str:
    if b"wait=" in scope.get("query_string", b""):
        return "long_polls"
    path = scope["path"]
    return next((name for begin, name in PARTS if path.startswith(begin)), "pages")


def _path_of(scope: Any) -> str:
    """As much of it as is told."""
    path = escaped(without_links(scope["path"]))
    return path if len(path) <= LONGEST else f"{path[:LONGEST]}…"


def _method_of(scope: Any) -> str:
    method: str = scope["method"]
    return method if method in METHODS else "other"


def _chosen_id(scope: Any) -> bytes | None:
    chosen = _header(scope, HEADER)
    return chosen if CHOSEN.fullmatch(chosen) else None


def _header(scope: Any, wanted: bytes) -> bytes:
    """Its value; empty if there is none, or several."""
    values = [value for name, value in scope["headers"] if name == wanted]
    return values[0] if len(values) == 1 else b""
