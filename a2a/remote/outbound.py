"""HTTP to remote agents, whose URLs come from their cards; repairs times without a time zone."""

from __future__ import annotations

import json
import re
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx

from ledger.foundation import http_out

WITHOUT_ZONE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?")
TIMEOUT_S = 15.0
LARGEST_ANSWER = 4 * 1024 * 1024  # bytes


def client(token: str) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """A client for one exchange with a remote agent. Raises what ``safe_http.client`` raises."""
    return http_out.client(
        _RemoteTransport(largest_answer=LARGEST_ANSWER),
        timeout_s=TIMEOUT_S,
        headers={"Authorization": f"Bearer {token}"} if token else {},
    )


class _RemoteTransport(http_out.SafeTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await _with_time_zones(await super().handle_async_request(request))


async def _with_time_zones(response: httpx.Response) -> httpx.Response:
    """Some libraries (fasta2a 2.1) write a status' time without its zone, which the SDK refuses."""
    if not response.headers.get("content-type", "").startswith("application/"):
        return response
    body = await response.aread()
    await response.aclose()
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None  # the caller reports it
    if _add_time_zones(fields):
        body = json.dumps(fields).encode()
    kept = {"content-type", "www-authenticate", "retry-after", "etag"}
    headers = {name: value for name, value in response.headers.items() if name in kept}
    return httpx.Response(response.status_code, headers=headers, content=body)


def _add_time_zones(fields: Any, depth: int = 0) -> bool:
    """True if a time got its zone: UTC, as the specification has it."""
    if not isinstance(fields, dict) or depth > 4:
        return False
    at = fields.get("timestamp")
    if "state" in fields and isinstance(at, str) and WITHOUT_ZONE.fullmatch(at):
        fields["timestamp"] = f"{at}Z"
        return True
    return any(
        _add_time_zones(fields.get(name), depth + 1) for name in ("result", "task", "status")
    )
