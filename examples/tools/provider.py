"""How the example tools speak to a provider, and what its answers prove.

After a request to change something there is one question: did it happen? Yes is a 2xx. Surely not
is ``NothingHappened``, and it must be *sure*: the ledger then ends the transaction and frees its
operation key. Everything else is unknown and simply raised; the ledger finds out.
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

# Conflicts that are final whatever went before: this hold will not come back, and this key
# belongs to another request for ever.
FINAL_CONFLICTS = {"hold_lapsed", "idempotency_key_reused"}
# Too slow, conflict, too early, too many: may be about an earlier copy of the request.
SAYS_LITTLE = {408, 409, 425, 429}


class Refused(Exception):
    """A 4xx, in the provider's own words. What that proves depends on what was asked."""

    def __init__(self, answer: httpx.Response) -> None:
        error = _error_in(answer)
        super().__init__(error.get("message") or f"{answer.status_code} {answer.reason_phrase}")
        self.status = answer.status_code
        self.code = error.get("code")


def look(path: str, timeout: timedelta, **query: str) -> dict[str, Any]:
    """Read something. Raises ``Refused``."""
    return ask("GET", path, timeout, query=query)


def act(
    method: str, path: str, context: Context, *, key: str = "", body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Carry out what was signed off. For ``execute`` only: it turns answers into proof.

    Raises ``NothingHappened`` where neither this attempt nor an earlier one can have got through.
    """
    is_first = context.attempt == 1
    try:
        return ask(method, path, context.timeout, key=key, body=body)
    except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
        if is_first:
            words = "The provider could not be reached; nothing was sent."
            raise NothingHappened(words) from failure
        raise
    except Refused as refusal:
        is_proof = is_first and refusal.status not in SAYS_LITTLE
        if is_proof or refusal.code in FINAL_CONFLICTS:
            raise NothingHappened(str(refusal)) from refusal
        raise


@contextmanager
def provider_may_refuse() -> Iterator[None]:
    """For ``plan``: the provider's no is an answer, and the agent is told it."""
    try:
        yield
    except Refused as refusal:
        raise NothingHappened(str(refusal)) from refusal


def ask(
    method: str,
    path: str,
    timeout: timedelta,
    *,
    key: str = "",
    body: dict[str, Any] | None = None,
    query: dict[str, str] | None = None,
) -> dict[str, Any]:
    """One request. Raises ``Refused`` for a 4xx and ``httpx.HTTPError`` for anything unclear."""
    answer = _client().request(
        method,
        os.environ.get("ASSENT_SANDBOX_URL", "http://127.0.0.1:8002").rstrip("/") + path,
        json=body,
        params=query,
        headers={"Idempotency-Key": f'"{key}"'} if key else {},
        timeout=_patience(timeout),
    )
    if answer.is_client_error:
        raise Refused(answer)
    if not answer.is_success:
        words = f"The provider answered {answer.status_code} {answer.reason_phrase}."
        raise httpx.HTTPStatusError(words, request=answer.request, response=answer)
    found: dict[str, Any] = answer.json()
    return found


def segment(text: str) -> str:
    """One segment of a path. Arguments come from agents, and may have slashes in them."""
    return quote(text, safe="")


def _error_in(answer: httpx.Response) -> dict[str, str]:
    try:
        error = answer.json()["error"]
    except (ValueError, LookupError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _patience(limit: timedelta) -> httpx.Timeout:
    """Give up before the ledger does, so that it hears why."""
    seconds = limit.total_seconds()
    return httpx.Timeout(seconds * 0.6, connect=seconds * 0.15)


@cache
def _client() -> httpx.Client:
    """One for the process, because making one is slow; but a new connection for each request.

    A kept connection may have been closed by the other side, and a request that dies with it is
    in doubt for no good reason. No proxies: the sandbox is on this machine.
    """
    return httpx.Client(limits=httpx.Limits(max_keepalive_connections=0), trust_env=False)
