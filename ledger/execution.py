"""Claim · act · record: how a signed-off transaction is carried out, exactly once.

A worker claims in a short database transaction, acts outside of any, and records in another
short one that tests its fencing token. A worker may die at any line: what it held is found by the
sweeper when its lease runs out, and is *in doubt* until the world was asked.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections
from django.db.models import F, Q
from django.db.models.functions import Now

from ledger import crash_points, sign_offs, states
from ledger.calls import Done, Lease, Nothing, Outcome, Unknown, act
from ledger.contracts import Retry
from ledger.errors import NotPossible
from ledger.models import Ending, Transaction
from ledger.principals import SWEEPER, WORKER
from ledger.results import clean, receipt_in, storable, web_address
from ledger.states import State
from ledger.transitions import advance

logger = logging.getLogger(__name__)

RECORD_TRIES = 6
ROLLBACK_RETRY = Retry(first=timedelta(seconds=1), longest=timedelta(minutes=5))
INQUIRY_RETRY = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5))

# --- commit ---------------------------------------------------------------------------------


def commit(transaction_id: UUID) -> None:
    """Carry out an approved transaction, or find out about one in doubt.

    Does nothing when the transaction is done, taken or withdrawn: all three are fine.
    """
    lease = claim(transaction_id)
    if lease is not None:
        run(lease)
    else:
        inquire(transaction_id)


def claim(transaction_id: UUID) -> Lease | None:
    """Make an approved transaction ours, for as long as the lease is renewed."""
    crash_points.reach("before claim")
    hold_lives = Q(hold_expires_at=None) | Q(hold_expires_at__gt=Now())
    try:
        row = advance(
            transaction_id,
            states.CLAIM,
            by=WORKER,
            via="system",
            only_if=hold_lives,
            **_new_lease(),
        )
    except NotPossible as refusal:
        if refusal.snapshot is not None and refusal.snapshot.state == State.APPROVED:
            lapse_hold(transaction_id)
        return None
    crash_points.reach("after claim")
    return Lease(row, row.fencing_token)


def lapse_hold(transaction_id: UUID) -> None:
    """What planning held is gone: what was signed off cannot be carried out any more."""
    reason = "What was held for it lapsed before it could be carried out."
    _try_advance(
        transaction_id,
        states.LAPSE_HOLD,
        only_if=Q(hold_expires_at__lte=Now()),
        reason=reason,
        ending=Ending.HOLD_LAPSED,
        ending_reason=reason,
        **_FRESH_WORK,
    )


def run(lease: Lease) -> None:
    """Act on a lease and record what came of it."""
    if why := sign_offs.why_not(lease.row):
        record_failure(lease, why)
        return
    record(lease, act(lease, "execute", record))


def record(lease: Lease, outcome: Outcome) -> None:
    """Write down what came of an execution. Void when another worker has taken over since."""
    crash_points.reach("before record")
    match outcome:
        case Done(value):
            record_receipt(lease, value)
        case Nothing(why):
            record_failure(lease, why)
        case Unknown(why):
            record_doubt(lease, why)
    crash_points.reach("after record")


def record_receipt(lease: Lease, value: Any) -> None:
    """COMMITTED with its receipt; without one the outcome is not known.

    A late answer counts too, as long as nobody else has taken over: COMMIT also leads out of
    IN_DOUBT.
    """
    result = storable(value)
    receipt = receipt_in(result, lease.tool.contract.receipt if lease.tool else "")
    if not receipt:
        record_doubt(lease, "The tool answered without a receipt.")
        return
    _persistently(
        lease.row.pk,
        states.COMMIT,
        only_if=lease.holds,
        details={"receipt": receipt},
        receipt=receipt,
        receipt_url=web_address(result.get("receipt_url")),
        result=result,
        error="",
        ended_at=Now(),
        **_NO_LEASE,
    )


def record_failure(lease: Lease, why: str) -> None:
    """Known to have had no effect: let go of what is held, then FAILED."""
    changes: dict[str, Any] = _FRESH_WORK | {
        "error": why,
        "ending": Ending.FAILED,
        "ending_reason": why,
    }
    if not _persistently(lease.row.pk, states.FAIL, only_if=lease.holds, reason=why, **changes):
        _persistently(lease.row.pk, states.DISPROVE, only_if=lease.holds, reason=why, **changes)


def record_doubt(lease: Lease, why: str) -> None:
    """Never roll back on unknown: keep it in doubt and have the world asked."""
    _persistently(
        lease.row.pk,
        states.DOUBT,
        only_if=lease.holds,
        reason=why,
        error=why,
        lease_expires_at=None,
        next_attempt_at=Now() + _wait_before_inquiry(lease),
    )


# --- in doubt -------------------------------------------------------------------------------


def doubt_lapsed_lease(transaction_id: UUID) -> None:
    """A worker was silent for longer than its lease: what it did is not known."""
    why = "The worker fell silent before it recorded an outcome."
    _try_advance(
        transaction_id,
        states.DOUBT,
        only_if=Q(lease_expires_at__lte=Now()),
        by=SWEEPER,
        reason=why,
        error=why,
        lease_expires_at=None,
        next_attempt_at=Now(),
    )


def inquire(transaction_id: UUID) -> None:
    """Ask the world what became of a transaction in doubt; run it again where that is safe."""
    row = _claim_inquiry(transaction_id)
    if row is None:
        return
    lease = Lease(row, row.fencing_token)
    if lease.tool is None or sign_offs.why_not(row):
        return  # a person has to say: the tool is not deployed any more, or the row was changed
    match act(lease, "find_receipt", record) if lease.tool.has("find_receipt") else Done(None):
        case Done(value) if value is not None:
            record_receipt(lease, value)
        case Nothing(why):
            record_failure(lease, why)
        case _:
            _run_again_if_safe(lease)


def _claim_inquiry(transaction_id: UUID) -> Transaction | None:
    """One inquirer at a time; the next one no sooner than the back-off says."""
    due = Transaction.objects.in_doubt().filter(pk=transaction_id, next_attempt_at__lte=Now())
    row = due.first()
    if row is None or not due.filter(fencing_token=row.fencing_token).update(
        next_attempt_at=Now() + _wait_after(row.attempts, INQUIRY_RETRY)
    ):
        return None
    return row


def _run_again_if_safe(lease: Lease) -> None:
    """Retry-safe tools run again with the same operation key; the others wait for a person."""
    contract = lease.tool.contract if lease.tool else None
    if contract is None or not contract.retry_safe or lease.row.attempts >= contract.retry.attempts:
        if lease.tool is None or not lease.tool.has("find_receipt"):
            Transaction.objects.in_doubt().filter(lease.holds, pk=lease.row.pk).update(
                next_attempt_at=None
            )
        return
    row = _try_advance(
        lease.row.pk,
        states.RETRY,
        only_if=lease.holds,
        reason=f"Attempt {lease.row.attempts + 1} with the same operation key.",
        **_new_lease(),
    )
    if row is not None:
        run(Lease(row, row.fencing_token))


# --- rollback and compensation -----------------------------------------------------------------


def roll_back(transaction_id: UUID) -> None:
    """Let go of what was held, again and again until it succeeds."""
    lease = _claim_work(transaction_id, State.ROLLING_BACK)
    if lease is None:
        return
    if why := sign_offs.why_not(lease.row):
        outcome: Outcome = Unknown(why)
    elif lease.tool is not None and not lease.tool.has("rollback"):
        outcome = Done(None)
    else:
        outcome = act(lease, "rollback", record)
    if not isinstance(outcome, Done):
        _put_off(lease, outcome.why)
        return
    move = states.SETTLE if lease.row.ending == Ending.FAILED else states.ABORT
    _persistently(lease.row.pk, move, only_if=lease.holds, ended_at=Now(), **_NO_LEASE)


def compensate(transaction_id: UUID) -> None:
    """Make up for what took hold, again and again until it succeeds."""
    lease = _claim_work(transaction_id, State.COMPENSATING)
    if lease is None:
        return
    why = sign_offs.why_not(lease.row)
    outcome = Unknown(why) if why else act(lease, "compensate", record)
    if not isinstance(outcome, Done):
        _put_off(lease, outcome.why)
        return
    receipt = clean(str(outcome.value or ""))[:500]
    _persistently(
        lease.row.pk,
        states.FINISH_COMPENSATION,
        only_if=lease.holds,
        details={"receipt": receipt},
        compensation_receipt=receipt,
        error="",
        ended_at=Now(),
        **_NO_LEASE,
    )


def _claim_work(transaction_id: UUID, state: State) -> Lease | None:
    """Take over work that may be repeated; its state does not change by that."""
    free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=Now())
    due = Q(next_attempt_at=None) | Q(next_attempt_at__lte=Now())
    if not Transaction.objects.filter(free, due, pk=transaction_id, state=state).update(
        **_new_lease()
    ):
        return None
    row = Transaction.objects.get(pk=transaction_id)
    return Lease(row, row.fencing_token)


def _put_off(lease: Lease, why: str) -> None:
    """Try again later; from the third time on the desk shows it as stuck."""
    logger.warning("%s of %s did not succeed: %s", lease.row.state, lease.row.pk, why)
    Transaction.objects.filter(lease.holds, pk=lease.row.pk).update(
        lease_expires_at=None,
        next_attempt_at=Now() + _wait_after(lease.row.attempts, ROLLBACK_RETRY),
        error=why,
    )


# --- small things ---------------------------------------------------------------------------


_NO_LEASE: dict[str, Any] = {"lease_expires_at": None, "next_attempt_at": None}
_FRESH_WORK: dict[str, Any] = {**_NO_LEASE, "attempts": 0}


def _new_lease() -> dict[str, Any]:
    return {
        "fencing_token": F("fencing_token") + 1,
        "attempts": F("attempts") + 1,
        "lease_expires_at": Now() + timedelta(seconds=settings.LEASE_S),
        "next_attempt_at": None,
    }


def _wait_before_inquiry(lease: Lease) -> timedelta:
    """The world is asked at once; after a second failure, no sooner than the contract says."""
    if lease.row.attempts < 2 or lease.tool is None:
        return timedelta(0)
    return _wait_after(lease.row.attempts - 1, lease.tool.contract.retry)


def _try_advance(transaction_id: UUID, move: states.Move, **said: Any) -> Transaction | None:
    """Advance, or leave it to whoever was faster."""
    try:
        return advance(transaction_id, move, **{"by": WORKER, "via": "system", **said})
    except NotPossible:
        return None


def _persistently(transaction_id: UUID, move: states.Move, **said: Any) -> Transaction | None:
    """Record through a blip of the database: money may have moved, so this must be kept."""
    for tries_left in reversed(range(RECORD_TRIES)):
        try:
            return _try_advance(transaction_id, move, **said)
        except (OperationalError, InterfaceError):
            if not tries_left:
                raise
            logger.warning("recording %s of %s again", move, transaction_id, exc_info=True)
            close_old_connections()
            time.sleep(0.1 * 2 ** (RECORD_TRIES - tries_left))
    return None


def _wait_after(attempts: int, retry: Retry) -> timedelta:
    doublings: int = 2 ** min(max(attempts - 1, 0), 20)
    return min(retry.first * doublings, retry.longest)
