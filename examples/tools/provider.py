"""HTTP requests of the example tools, and what each response proves.

After a request with an effect there is one question: did it take effect? A 2xx means yes.
``NothingHappened`` means certainly not: the ledger then ends the transaction and frees its
operation key. Any other exception means unknown, and the ledger finds out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx

from ledger.contracts import Context, NothingHappened

# Conflicts that prove that no attempt took effect: the hold is gone for good, or the key belongs
# to another request.
FINAL_CONFLICTS = {"hold_lapsed", "idempotency_key_reused"}
# Timeout, conflict, too early, too many requests: may be caused by an earlier copy of the request.
PROVES_NOTHING = {408, 409, 425, 429}


class Refused(Exception):
    """The provider responded with a 4xx. What that proves depends on the request."""

    def __init__(self, response: httpx.Response) -> None:
        error = _error_in(response)
        status = f"{response.status_code} {response.reason_phrase}"
        super().__init__(error.get("message") or status)
        self.status = response.status_code
        self.code = error.get("code")


def read(path: str, timeout: timedelta, **query: str) -> dict[str, Any]:
    """One GET request. Raises ``Refused`` and ``httpx.HTTPError``."""
    return send("GET", path, timeout, query=query)


def execute(
    method: str, path: str, context: Context, *, key: str = "", body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Send the request with the effect, and find out what its response proves.

    For the tool's function only. Raises ``NothingHappened`` if neither this attempt nor an earlier
    one can have taken effect; ``Refused`` and ``httpx.HTTPError`` mean unknown.
    """
    is_first = context.attempt == 1
    try:
        return send(method, path, context.timeout, key=key, body=body)
    except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
        if is_first:
            raise NothingHappened(
                "The provider could not be reached; nothing was sent."
            ) from failure
        raise
    except Refused as refusal:
        is_proof = is_first and refusal.status not in PROVES_NOTHING
        if is_proof or refusal.code in FINAL_CONFLICTS:
            raise NothingHappened(str(refusal)) from refusal
        raise


@contextmanager
def provider_may_refuse() -> Iterator[None]:
    """For ``plan``: a refusal of the provider refuses the plan, and the agent reads why."""
    try:
        yield
    except Refused as refusal:
        raise NothingHappened(str(refusal)) from refusal


def send(
    method: str,
    path: str,
    timeout: timedelta,
    *,
    key: str = "",
    body: dict[str, Any] | None = None,
    query: dict[str, str] | None = None,
) -> dict[str, Any]:
    """One request. Raises ``Refused`` for a 4xx and ``httpx.HTTPError`` for anything unclear."""
    response = _client().request(
        method,
        os.environ.get("ASSENT_SANDBOX_URL", "http://127.0.0.1:8002").rstrip("/") + path,
        json=body,
        params=query,
        headers={"Idempotency-Key": f'"{key}"'} if key else {},
        timeout=_http_timeout(timeout),
    )
    if response.is_client_error:
        raise Refused(response)
    if not response.is_success:
        message = f"The provider responded {response.status_code} {response.reason_phrase}."
        raise httpx.HTTPStatusError(message, request=response.request, response=response)
    content: dict[str, Any] = response.json()
    return content


def segment(text: str) -> str:
    """One segment of a path. Arguments come from agents and may contain slashes."""
    return quote(text, safe="")


def _error_in(response: httpx.Response) -> dict[str, str]:
    try:
        error = response.json()["error"]
    except (ValueError, LookupError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _http_timeout(limit: timedelta) -> httpx.Timeout:
    """Shorter than the tool's own timeout, so that the ledger gets the exception."""
    seconds = limit.total_seconds()
    return httpx.Timeout(seconds * 0.6, connect=seconds * 0.15)


@cache
def _client() -> httpx.Client:
    """One client per process, because creating one is slow; a new connection for each request.

    The provider may have closed an idle connection, and a request that fails on it would be in
    doubt without need. Proxies are ignored: the sandbox is on this machine.
    """
    return httpx.Client(limits=httpx.Limits(max_keepalive_connections=0), trust_env=False)
