"""Record the outcome of a call, however long the database is away.

The fencing token keeps a late worker from overwriting a later one; its receipt is kept all the
same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache, partial
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, connection
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from ledger import states
from ledger.contracts.results import NOTE, receipt_in, storable, web_address
from ledger.errors import NotPossible
from ledger.execution import crash_points
from ledger.execution.leases import Lease
from ledger.execution.tool_calls import Accepted, Done, NotCalled, Nothing, Outcome, Unknown
from ledger.foundation.backoff import Backoff
from ledger.foundation.postgres import of_each
from ledger.models import Ending, Transaction
from ledger.principals import WORKER, Principal, Surface
from ledger.states import Move, Reasons, State
from ledger.transactions.transitions import (
    ALWAYS,
    FRESH,
    RELEASED,
    CompiledMove,
    OneMove,
    WorkColumns,
    advance,
    compile_move,
    end_all_at_once,
)

logger = logging.getLogger(__name__)

R = TypeVar("R")

# How long a worker keeps trying to record an outcome while the database is away.
RECORD_FOR_S = 600.0
RECORD_BACKOFF = Backoff(first=timedelta(seconds=0.1), longest=timedelta(seconds=5))
UNSTORABLE = "What the tool returned could not be stored; the receipt is what counts."


def record(lease: Lease, outcome: Outcome) -> None:
    """Record the outcome of an execution, unless another worker has claimed the row since."""
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
        case Accepted(after):
            record_accepted(lease, after)
    crash_points.reach("after record")


def record_all(commits: Sequence[OneMove]) -> set[UUID]:
    """Record what ``commit_of`` made, in one statement; returns the transactions.

    The others, ``record`` records one by one. Waits for no row that somebody else has locked.
    Raises ``DatabaseError``: then none was recorded, or this process does not know.
    """
    crash_points.reach("before record")
    recorded = end_all_at_once(_commit(), commits, skip_locked=True)
    crash_points.reach("after record")
    return recorded


def record_receipt(lease: Lease, value: Any) -> None:
    """COMMITTED with its receipt; IN_DOUBT if the tool returned none.

    A late receipt counts too: COMMIT also leads out of IN_DOUBT, whichever worker claimed the row
    since, because a receipt proves the effect. If the row is settled already, operators are told.
    """
    result, receipt = _result_and_receipt(lease, value)
    if not receipt:
        record_doubt(lease, "The tool answered without a receipt.")
        return
    commit = partial(
        try_advance,
        lease.row.pk,
        states.COMMIT,
        only_if=lease.holds | Q(state=State.IN_DOUBT),
        details={"receipt": receipt},
        work=RELEASED,
        receipt=receipt,
        receipt_url=web_address(result.get("receipt_url")),
        # An earlier attempt of the operation may have brought the same receipt late.
        late_receipt=Case(When(late_receipt=receipt, then=Value("")), default=F("late_receipt")),
        error="",
        error_detail="",
        settlement=None,
        ended_at=Now(),
    )
    try:
        row = through_outages(partial(commit, result=result), lease, receipt)
    except DataError:
        logger.exception("the result of %s cannot be stored", lease.row.pk)
        row = through_outages(partial(commit, result={NOTE: UNSTORABLE}), lease, receipt)
    if row is None:
        _keep_late_receipt(lease, receipt)


@cache
def _commit() -> CompiledMove:
    """COMMIT by the worker that has the lease, where no receipt came late before."""
    own = {
        "fencing_token": "integer",
        "receipt": "text",
        "receipt_url": "text",
        "result": "jsonb",
    }
    held = {"pk": of_each("id"), "fencing_token": of_each("fencing_token"), "late_receipt": ""}
    return compile_move(
        Transaction.objects.filter(**held),
        states.COMMIT,
        own,
        work=RELEASED,
        receipt=of_each("receipt"),
        receipt_url=of_each("receipt_url"),
        result=of_each("result"),
        late_receipt="",
        error="",
        error_detail="",
        settlement=None,
        ended_at=Now(),
    )


def commit_of(lease: Lease, outcome: Outcome) -> OneMove | None:
    """The move that the tool's receipt makes; ``None`` without one.

    What a tool returned may run its code here, and take long.
    """
    if not isinstance(outcome, Done):
        return None
    result, receipt = _result_and_receipt(lease, outcome.value)
    columns = {
        "fencing_token": lease.fencing_token,
        "receipt": receipt,
        "receipt_url": web_address(result.get("receipt_url")),
        "result": result,
    }
    details = {"receipt": receipt}
    commit = OneMove(lease.row.pk, by=WORKER, via=Surface.SYSTEM, details=details, columns=columns)
    return commit if receipt else None


def _result_and_receipt(lease: Lease, value: Any) -> tuple[dict[str, Any], str]:
    result = storable(value)
    return result, receipt_in(result, lease.tool.contract.receipt if lease.tool else "")


def _keep_late_receipt(lease: Lease, receipt: str) -> None:
    """Keep a receipt that came after the row was settled without it, for an operator to judge.

    Until then the operation cannot be claimed again.
    """
    is_new = ~Q(receipt=receipt) & ~Q(late_receipt=receipt)

    def write() -> Transaction | None:
        try:
            return advance(
                lease.row.pk,
                states.LATE_RECEIPT,
                by=WORKER,
                via=Surface.SYSTEM,
                reason=Reasons.LATE_FROM_WORKER(),
                only_if=is_new,
                details={"receipt": receipt, "fencing_token": lease.fencing_token},
                late_receipt=receipt,
            )
        except NotPossible:
            return None  # another worker recorded the same receipt

    if through_outages(write, lease, receipt) is not None:
        logger.error(
            "LATE RECEIPT %s of transaction %s, operation key %s: look at it on the desk",
            receipt,
            lease.row.pk,
            lease.row.operation_key,
        )


def record_failure(lease: Lease, why: str) -> None:
    """Known to have had no effect: roll back what is held, then FAILED."""

    def write() -> Transaction | None:
        return _fail(lease, states.FAIL, why) or _fail(lease, states.DISPROVE, why)

    through_outages(write, lease)


def _fail(lease: Lease, move: Move[State], why: str) -> Transaction | None:
    return try_advance(
        lease.row.pk,
        move,
        only_if=lease.holds,
        reason=why,
        work=FRESH,
        error=why,
        error_detail="",
        settlement=None,
        ending=Ending.FAILED,
        ending_reason=why,
    )


def record_doubt(lease: Lease, why: str, detail: str = "") -> None:
    """IN_DOUBT, with an inquiry scheduled. An unknown outcome is never rolled back."""
    doubt = partial(
        try_advance,
        lease.row.pk,
        states.DOUBT,
        only_if=lease.holds,
        reason=why,
        work=WorkColumns(
            lease_expires_at=None, next_attempt_at=Now() + _wait_before_inquiry(lease)
        ),
        error=why,
        error_detail=detail,
    )
    through_outages(doubt, lease)


def record_accepted(lease: Lease, after: timedelta) -> None:
    """The tool does it later: no worker has it until it is asked for again, after so long."""
    rows = Transaction.objects.filter(lease.holds, pk=lease.row.pk, state=State.COMMITTING)

    def write() -> None:
        rows.update(lease_expires_at=None, next_attempt_at=Now() + after)

    through_outages(write, lease)


def _record_not_called(lease: Lease, why: str, may_be_called_again: bool) -> None:
    """A failure if no earlier worker can have called the tool and another call is no use."""
    is_safe = lease.tool is not None and lease.tool.contract.retry_safe
    if lease.is_first and not (may_be_called_again and is_safe):
        record_failure(lease, why)
    else:
        record_doubt(lease, why)


def _wait_before_inquiry(lease: Lease) -> timedelta:
    """None after the first attempt; after later ones, as long as the contract's retry says."""
    if lease.row.attempts < 2 or lease.tool is None:
        return timedelta(0)
    retry = lease.tool.contract.retry
    return Backoff(retry.first, retry.longest).wait(lease.row.attempts - 1)


def try_advance(
    transaction_id: UUID,
    move: Move[State],
    *,
    by: Principal = WORKER,
    reason: str = "",
    only_if: Q = ALWAYS,
    details: Mapping[str, Any] | None = None,
    work: WorkColumns | None = None,
    **columns: Any,
) -> Transaction | None:
    """``advance``, or ``None`` if the row is no longer where the move starts."""
    try:
        return advance(
            transaction_id,
            move,
            by=by,
            via=Surface.SYSTEM,
            reason=reason,
            only_if=only_if,
            details=details,
            work=work,
            **columns,
        )
    except NotPossible:
        return None


def through_outages(write: Callable[[], R], lease: Lease, receipt: str = "") -> R:
    """Call ``write`` until the database takes it, for up to ``RECORD_FOR_S``.

    Money may have moved, so the outcome must not be lost. If it ends without success, everything
    that an operator needs stands in the process's log.
    """
    gives_up_at = time.monotonic() + RECORD_FOR_S
    failures = 0
    while True:
        failures += 1
        pause_s = RECORD_BACKOFF.wait(failures).total_seconds()
        try:
            return write()
        except (DataError, IntegrityError):
            _log_unrecorded(lease, receipt, "NOT RECORDED")
            raise
        # Any other failure says nothing about the row: a lost session, a primary that is read-only
        # since a fail-over, a session that was ended while this process stood still.
        except (DatabaseError, InterfaceError) as failure:
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


def _log_unrecorded(lease: Lease, receipt: str, problem: str) -> None:
    """Everything that an operator needs to settle the transaction by hand."""
    row = lease.row
    logger.error(
        "%s: transaction %s, operation key %s, receipt %s, tool %s, attempt %s. "
        "If it stays in doubt, settle it on the desk with this receipt.",
        problem,
        row.pk,
        row.operation_key,
        receipt or "none",
        row.tool,
        lease.fencing_token,
    )
