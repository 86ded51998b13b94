"""Each request has an id, in its answer and on every line of the log that it causes, and one line.

A client may choose the id, to find its requests here.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from uuid_utils import uuid7

from approvals.metrics import requests
from ledger.foundation import log_context

logger = logging.getLogger("assent.requests")

HEADER = b"request-id"
CHOSEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# Asked for too often, and by pages, to be worth a line.
UNTOLD = ("/static/",)


class RequestLog:
    """``inside``, with an id and a line for each request. Query strings are not logged."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request_id = _chosen_id(scope) or uuid7().hex.encode()
        begin, statuses = time.monotonic(), []

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                message = {**message, "headers": [*message["headers"], (HEADER, request_id)]}
            await send(message)

        with log_context.about(request_id=request_id.decode()):
            try:
                await self._inside(scope, receive, answer)
            finally:
                if scope["type"] == "http":
                    # 0: the client was gone, or nothing answered
                    _tell(scope, statuses[0] if statuses else 0, time.monotonic() - begin)


def _tell(scope: Any, status: int, seconds: float) -> None:
    requests.count(scope, status, seconds)
    if scope["path"].startswith(UNTOLD):
        return
    told = (scope["method"], scope["path"], status, round(seconds * 1000))
    facts = dict(zip(("method", "path", "status", "milliseconds"), told, strict=True))
    logger.info("%s %s %s in %s ms", *told, extra={"facts": facts})


def _chosen_id(scope: Any) -> bytes | None:
    chosen = [value for name, value in scope["headers"] if name == HEADER]
    return chosen[0] if len(chosen) == 1 and CHOSEN.fullmatch(chosen[0]) else None
