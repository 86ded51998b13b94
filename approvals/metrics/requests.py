"""Requests to this host's web processes, and attempts to sign in."""

from __future__ import annotations

from typing import Any

from ledger.foundation.telemetry.counters import Counted, Timed

PARTS = (
    *(("/api/", "rest"), ("/a2a", "a2a"), ("/mcp", "mcp"), ("/humanlayer/", "humanlayer")),
    *(("/slack/", "slack"), ("/static/", "static"), ("/log/", "log"), ("/sign-in/", "sign_in")),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUESTS = "assent_http_request_seconds"
_requests = Timed(
    REQUESTS,
    "Requests over HTTP, from their first byte to the end of the answer.",
    *("part", "method", "status"),
)
_sign_ins = Counted("assent_sign_ins", "Attempts to sign in.", "outcome")


def count_request(scope: Any, status: int, seconds: float) -> None:
    """Few values of each label, whatever strangers ask for."""
    _requests.took(seconds, part_of(scope), method_of(scope), str(status))


def count_sign_in(outcome: str) -> None:
    """``signed_in``, ``refused`` for a wrong proof, or ``blocked`` before it was looked at."""
    _sign_ins.count(outcome)


def part_of(scope: Any) -> str:
    if b"wait=" in scope.get("query_string", b""):
        return "long_polls"
    path = scope["path"]
    return next((name for begin, name in PARTS if path.startswith(begin)), "pages")


def method_of(scope: Any) -> str:
    method: str = scope.get("method", "GET")
    return method if method in METHODS else "other"
