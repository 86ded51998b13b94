"""How the example tools speak to a provider, and what its answers prove.

The one question that matters after a request to change something: did it happen? Three answers
are possible, and only two of them may be guessed at by nobody: yes (2xx), surely not
(``NothingHappened``), and unknown (any other exception; the ledger then finds out).
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx

from ledger.contracts import Context, NothingHappened

# Conflicts that are final whatever went before: the hold will not come back, and the key belongs
# to another request for ever.
FINAL_CONFLICTS = {"hold_lapsed", "idempotency_key_reused"}
# "Too slow", "conflict", "too early", "too many": these may be about an earlier copy of the request.
SAYS_LITTLE = {408, 409, 425, 429}


def look(path: str, timeout: timedelta, **query: str) -> dict[str, Any]:
    """Read something. Raises ``NothingHappened`` with the provider's words for a refusal."""
    answer = _client().get(_url(path), params=query, timeout=_patience(timeout))
    if answer.is_client_error:
        raise NothingHappened(_words_of(answer))
    return _body(answer)


def act(
    method: str, path: str, context: Context, *, key: str = "", body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Change something. Raises ``NothingHappened`` only where nothing can have happened."""
    headers = {"Idempotency-Key": f'"{key}"'} if key else {}
    try:
        answer = _client().request(
            method, _url(path), json=body, headers=headers, timeout=_patience(context.timeout)
        )
    except (httpx.ConnectError, httpx.ConnectTimeout) as failure:
        # Nothing was sent. That says nothing about an earlier attempt, though.
        if context.attempt > 1:
            raise
        raise NothingHappened("The provider could not be reached; nothing was sent.") from failure
    if _proves_that_nothing_happened(answer, context):
        raise NothingHappened(_words_of(answer))
    return _body(answer)


def segment(text: str) -> str:
    """One segment of a path: arguments come from agents, and may have slashes in them."""
    return quote(text, safe="")


def _proves_that_nothing_happened(answer: httpx.Response, context: Context) -> bool:
    if answer.status_code == 409:
        return _error(answer).get("code") in FINAL_CONFLICTS
    first = context.attempt == 1
    return first and answer.is_client_error and answer.status_code not in SAYS_LITTLE


def _body(answer: httpx.Response) -> dict[str, Any]:
    """Anything but a proper success is unknown, redirects and broken JSON included."""
    if not answer.is_success:
        words = f"The provider answered {answer.status_code}: {_words_of(answer)}"
        raise httpx.HTTPStatusError(words, request=answer.request, response=answer)
    body: dict[str, Any] = answer.json()
    return body


def _words_of(answer: httpx.Response) -> str:
    return str(_error(answer).get("message") or f"{answer.status_code} {answer.reason_phrase}")


def _error(answer: httpx.Response) -> dict[str, Any]:
    try:
        error = answer.json()["error"]
    except (ValueError, LookupError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _url(path: str) -> str:
    return os.environ.get("ASSENT_SANDBOX_URL", "http://127.0.0.1:8090").rstrip("/") + path


def _patience(limit: timedelta) -> httpx.Timeout:
    """Give up before the ledger does, so that it hears why."""
    seconds = limit.total_seconds()
    return httpx.Timeout(seconds * 0.7, connect=seconds * 0.2)


@cache
def _client() -> httpx.Client:
    """One for the process (making one is slow), but a fresh connection for each request.

    A kept connection may have been closed by the other side, and a request that dies with it is
    in doubt for no good reason. No proxies: the sandbox is on this machine.
    """
    return httpx.Client(limits=httpx.Limits(max_keepalive_connections=0), trust_env=False)
