"""How the example tools reach the sandbox, and what its answers prove."""

from __future__ import annotations

import os
from typing import Any

import httpx

from ledger.contracts import Context, NothingHappened


def address() -> str:
    return os.environ.get("ASSENT_SANDBOX_URL", "http://127.0.0.1:8002")


def perform(method: str, path: str, context: Context, **request: Any) -> dict[str, Any]:
    """One request that changes the world, for ``execute``.

    A connection that was refused proves that nothing was sent.
    """
    try:
        return ask(method, path, context, **request)
    except httpx.ConnectError as failure:
        raise NothingHappened(f"The provider cannot be reached: {failure}") from failure


def ask(
    method: str, path: str, context: Context, *, key: str = "", body: Any = None
) -> dict[str, Any]:
    """One request. Raises ``NothingHappened`` with the provider's words for a 4xx.

    A timeout, a cut connection and a 5xx prove nothing. They go through as they are, so that the
    ledger keeps an execution in doubt, and tries a rollback again.
    """
    headers = {"Idempotency-Key": key} if key else {}
    timeout = context.timeout.total_seconds() * 0.8
    answer = httpx.request(method, address() + path, headers=headers, json=body, timeout=timeout)
    if 400 <= answer.status_code < 500:
        raise NothingHappened(answer.json()["error"])
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def find(path: str, context: Context, **query: str) -> dict[str, Any] | None:
    """What the provider remembers, or ``None`` when it knows of nothing (yet)."""
    timeout = context.timeout.total_seconds() * 0.8
    answer = httpx.get(address() + path, params=query, timeout=timeout)
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def receipt_page(receipt: str) -> str:
    return f"{address()}/receipts/{receipt}"
