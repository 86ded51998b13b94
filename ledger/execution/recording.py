"""Record: what came of a call is written down, however long that takes.

The fencing token makes a late worker's word void; its receipt is kept all the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DataError, connection
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from ledger import states
from ledger.backoff import Backoff
from ledger.contracts import Retry
from ledger.contracts.results import NOTE, receipt_in, storable, web_address
from ledger.errors import NotPossible
from ledger.execution import crash_points
from ledger.execution.tool_calls import Done, NotCalled, Nothing, Outcome, Unknown
from ledger.models import Ending, Transaction
from ledger.principals import WORKER
from ledger.states import Move, State
from ledger.transactions.leases import OUT_OF_REACH, Lease
from ledger.transactions.transitions import advance

logger = logging.getLogger(__name__)

# How long a worker goes on to record what it knows while the database is away.
RECORD_FOR_S = 600.0
RECORD_BACKOFF = Backoff(first=timedelta(seconds=0.1), longest=timedelta(seconds=5))
UNSTORABLE = "What the tool returned could not be stored; the receipt is what counts."

NO_LEASE: dict[str, Any] = {"lease_expires_at": None, "next_attempt_at": None}
FRESH_WORK: dict[str, Any] = {**NO_LEASE, "attempts": 0}


def record(lease: Lease, outcome: Outcome) -> None:
    """Write down what came of an execution. Void when another worker has taken over since."""
    crash_points.reach("before record")
    match outcome:
        case Done(value):
            record_receipt(lease, value)
        case Nothing(why):
            record_failure(lease, why)
        case Unknown(why, detail):
            record_doubt(lease, why, detail)
        case NotCalled(why, may_be_called_again):
            _record_not_called(lease, why, may_be_called_again)
    crash_points.reach("after record")


def record_receipt(lease: Lease, value: Any) -> None:
    """COMMITTED with its receipt; without one the outcome is not known.

    A late answer counts too: COMMIT also leads out of IN_DOUBT, whoever was at work since, because
    a receipt proves an effect. Where the row is settled already, people are told of it.
    """
    result = storable(value)
    receipt = receipt_in(result, lease.tool.contract.receipt if lease.tool else "")
    if not receipt:
        record_doubt(lease, "The tool answered without a receipt.")
        return
    changes: dict[str, Any] = {
        "receipt": receipt,
        "receipt_url": web_address(result.get("receipt_url")),
        # Two attempts of one operation bring the same receipt: the other one needs no look then.
        "late_receipt": Case(When(late_receipt=receipt, then=Value("")), default=F("late_receipt")),
        "error": "",
        "error_detail": "",
        "settlement": None,
        "ended_at": Now(),
        **NO_LEASE,
    }
    commit_it = partial(
        try_advance,
        lease.row.pk,
        states.COMMIT,
        only_if=lease.holds | Q(state=State.IN_DOUBT),
        details={"receipt": receipt},
        **changes,
    )
    try:
        row = persistently(partial(commit_it, result=result), lease, receipt)
    except DataError:
        logger.exception("the result of %s cannot be stored", lease.row.pk)
        row = persistently(partial(commit_it, result={NOTE: UNSTORABLE}), lease, receipt)
    if row is None:
        _keep_late_receipt(lease, receipt)


def _keep_late_receipt(lease: Lease, receipt: str) -> None:
    """Too late for the row, which was settled without it: an event, and a look by a person.

    Until then nobody begins this operation again.
    """
    is_news = ~Q(receipt=receipt) & ~Q(late_receipt=receipt)

    def write() -> Transaction | None:
        try:
            return advance(
                lease.row.pk,
                states.LATE_RECEIPT,
                by=WORKER,
                via="system",
                reason="A worker brought this receipt after the transaction had been settled.",
                only_if=is_news,
                details={"receipt": receipt, "fencing_token": lease.fencing_token},
                late_receipt=receipt,
            )
        except NotPossible:
            return None  # it is known already

    if persistently(write, lease, receipt) is not None:
        logger.error(
            "LATE RECEIPT %s of transaction %s, operation key %s: look at it on the desk",
            receipt, lease.row.pk, lease.row.operation_key,
        )  # fmt: skip


def record_failure(lease: Lease, why: str) -> None:
    """Known to have had no effect: let go of what is held, then FAILED."""
    changes: dict[str, Any] = FRESH_WORK | {
        "error": why,
        "error_detail": "",
        "settlement": None,
        "ending": Ending.FAILED,
        "ending_reason": why,
    }

    def write() -> Transaction | None:
        said: dict[str, Any] = {"only_if": lease.holds, "reason": why, **changes}
        pk = lease.row.pk
        return try_advance(pk, states.FAIL, **said) or try_advance(pk, states.DISPROVE, **said)

    persistently(write, lease)


def record_doubt(lease: Lease, why: str, detail: str = "") -> None:
    """Never roll back on unknown: keep it in doubt and have the world asked."""
    doubt = partial(
        try_advance,
        lease.row.pk,
        states.DOUBT,
        only_if=lease.holds,
        reason=why,
        error=why,
        error_detail=detail,
        lease_expires_at=None,
        next_attempt_at=Now() + _wait_before_inquiry(lease),
    )
    persistently(doubt, lease)


def _record_not_called(lease: Lease, why: str, may_be_called_again: bool) -> None:
    """Proof that nothing happened, if nobody was at it before; what can be repeated is repeated."""
    is_safe = lease.tool is not None and lease.tool.contract.retry_safe
    if lease.is_first and not (may_be_called_again and is_safe):
        record_failure(lease, why)
    else:
        record_doubt(lease, why)


def _wait_before_inquiry(lease: Lease) -> timedelta:
    """The world is asked at once; after a second failure, no sooner than the contract says."""
    if lease.row.attempts < 2 or lease.tool is None:
        return timedelta(0)
    return wait_after(lease.row.attempts - 1, lease.tool.contract.retry)


def try_advance(transaction_id: UUID, move: Move[State], **said: Any) -> Transaction | None:
    """Advance, or leave it to whoever was faster."""
    try:
        return advance(transaction_id, move, **{"by": WORKER, "via": "system", **said})
    except NotPossible:
        return None


def persistently(
    write: Callable[[], Transaction | None], lease: Lease, receipt: str = ""
) -> Transaction | None:
    """Record through an outage of the database: money may have moved, so this must be kept.

    Goes on for minutes. Whatever ends it without success, a receipt stands in the log.
    """
    gives_up_at = time.monotonic() + RECORD_FOR_S
    failures = 0
    while True:
        failures += 1
        pause_s = RECORD_BACKOFF.wait(failures).total_seconds()
        try:
            return write()
        except OUT_OF_REACH as failure:
            if time.monotonic() + pause_s > gives_up_at:
                _log_unrecorded(lease, receipt, "NOT RECORDED, GIVEN UP")
                raise
            if failures == 1:
                _log_unrecorded(lease, receipt, f"not recorded yet ({failure})".strip())
            connection.close()
        except BaseException:
            _log_unrecorded(lease, receipt, "NOT RECORDED")
            raise
        try:
            time.sleep(pause_s)
        except BaseException:  # a second Ctrl-C, a time limit
            _log_unrecorded(lease, receipt, "NOT RECORDED, INTERRUPTED")
            raise


def _log_unrecorded(lease: Lease, receipt: str, what: str) -> None:
    """Everything that an operator needs to settle the transaction by hand."""
    row = lease.row
    logger.error(
        "%s: transaction %s, operation key %s, receipt %s, tool %s, attempt %s. "
        "If it stays in doubt, settle it on the desk with this receipt.",
        what, row.pk, row.operation_key, receipt or "none", row.tool, lease.fencing_token,
    )  # fmt: skip


def wait_after(attempts: int, retry: Retry) -> timedelta:
    return Backoff(retry.first, retry.longest).wait(attempts)
