"""The tools of the storm: one for each promise that a contract can make about its outside."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx

from ledger.contracts import Context, NothingHappened, Plan, Retry, transactional

TIMEOUT = timedelta(seconds=3)
HOLD = timedelta(minutes=10)
TERMS: dict[str, Any] = {
    "owner_service": "outside",
    "receipt": "receipt",
    "timeout": TIMEOUT,
    "retry": Retry(attempts=12, first=timedelta(seconds=1), longest=timedelta(seconds=5)),
}


@transactional(
    operation_key="transfer:{tenant}:{reference}",
    risk_level="HIGH",
    consequence_level="COMPENSABLE",
    retry_safe=True,
    undo="The same amount is transferred back.",
    **TERMS,
)
def transfer(reference: str, context: Context, times: int = 1) -> dict[str, Any]:
    """Retry-safe and without a plan: the outside honours its operation key."""
    return _perform("transfer", context, honours_key=True, times=times)


@transfer.compensate
def _transfer_back(receipt: str, context: Context) -> str:
    return str(_post("/undone", {"key": context.operation_key, "receipt": receipt})["receipt"])


@transfer.find_receipt
def _find_transfer(context: Context) -> dict[str, Any] | None:
    return _found(key=context.operation_key)


@transactional(
    operation_key="reserve:{tenant}:{reference}",
    risk_level="MEDIUM",
    consequence_level="REVERSIBLE",
    floor="NONE",
    retry_safe=True,
    **TERMS,
)
def reserve(reference: str, context: Context, times: int = 1) -> dict[str, Any]:
    """Holds something while people decide, and can be planned again beside that."""
    return _perform("reserve", context, honours_key=True, times=times, hold=context.held["hold"])


@reserve.plan
def _plan_reserve(reference: str, times: int, context: Context) -> Plan:
    body = {"transaction": str(context.transaction_id), "key": context.operation_key}
    hold = _post("/holds", body)["hold"]
    return Plan(
        f"Reserve {reference} {times} times",
        held={"hold": hold},
        hold_expires_at=datetime.now(UTC) + HOLD,
    )


@reserve.replan
def _plan_reserve_again(reference: str, times: int, context: Context) -> Plan:
    # Where the answer is lost, nobody knows of the hold: it lapses.
    return _plan_reserve(reference, times, replace(context, transaction_id=uuid4()))


@reserve.rollback
def _release(context: Context) -> None:
    """One hold; all of the transaction where the answer to its plan was lost."""
    hold, transaction = context.held.get("hold", ""), str(context.transaction_id)
    _post("/released", {"hold": hold, "transaction": transaction})


@reserve.find_receipt
def _find_reserve(context: Context) -> dict[str, Any] | None:
    return _found(key=context.operation_key)


@transactional(
    operation_key="demolish:{tenant}:{reference}",
    risk_level="CRITICAL",
    consequence_level="IRREVERSIBLE",
    retry_safe=False,
    **TERMS,
)
def demolish(reference: str, context: Context) -> dict[str, Any]:
    """Every call takes effect, so it must never be repeated while the outcome is unknown."""
    return _perform("demolish", context, honours_key=False)


@demolish.find_receipt
def _find_demolish(context: Context) -> dict[str, Any] | None:
    """Not found proves nothing: the request may still be on its way."""
    return _found(transaction=str(context.transaction_id))


@transactional(
    operation_key="wire:{tenant}:{reference}",
    risk_level="HIGH",
    consequence_level="IRREVERSIBLE",
    retry_safe=False,
    **TERMS,
)
def wire(reference: str, context: Context) -> dict[str, Any]:
    """Neither repeated nor looked up: a receipt that is lost is lost for good."""
    return _perform("wire", context, honours_key=False)


@transactional(
    operation_key="order:{tenant}:{reference}",
    risk_level="MEDIUM",
    required_approver="SUPERVISOR",
    consequence_level="IRREVERSIBLE",
    retry_safe=True,
    **TERMS,
)
def order(reference: str, context: Context) -> dict[str, Any]:
    """A supervising agent may decide on it."""
    return _perform("order", context, honours_key=True)


@order.find_receipt
def _find_order(context: Context) -> dict[str, Any] | None:
    return _found(key=context.operation_key)


@transactional(
    operation_key="note:{tenant}:{reference}",
    risk_level="LOW",
    required_approver="NONE",
    consequence_level="COMPENSABLE",
    retry_safe=True,
    **TERMS,
)
def note(reference: str, context: Context) -> dict[str, Any]:
    """Passes without an approver."""
    return _perform("note", context, honours_key=True)


@note.compensate
def _erase(receipt: str, context: Context) -> str:
    return str(_post("/undone", {"key": context.operation_key, "receipt": receipt})["receipt"])


@note.find_receipt
def _find_note(context: Context) -> dict[str, Any] | None:
    return _found(key=context.operation_key)


def _perform(
    tool: str, context: Context, *, honours_key: bool, times: int = 1, hold: str = ""
) -> dict[str, Any]:
    return _post(
        "/effects",
        {
            "tool": tool,
            "key": context.operation_key,
            "transaction": str(context.transaction_id),
            "attempt": context.attempt,
            "lease_until": context.lease_until.timestamp() if context.lease_until else None,
            "honours_key": honours_key,
            "times": times,
            "hold": hold,
        },
    )


def _found(**query: str) -> dict[str, Any] | None:
    answer = _client().get("/effects", params=query)
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    content: dict[str, Any] = answer.json()
    return content


def _post(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Raises ``NothingHappened`` where the outside says so; any other failure proves nothing."""
    with _client() as client:
        answer = client.post(path, json=body)
    if answer.status_code == 422:
        raise NothingHappened(answer.json()["why"])
    answer.raise_for_status()
    content: dict[str, Any] = answer.json()
    return content


def _client() -> httpx.Client:
    """Its own time-out is longer than the contract's, so that late answers do come."""
    return httpx.Client(
        base_url=os.environ["CHAOS_OUTSIDE_URL"],
        timeout=httpx.Timeout(10, connect=2),
        trust_env=False,
    )
