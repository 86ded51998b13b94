"""Finds whether what was signed off is still true, before it is carried out.

A contract says how old a plan may be (``plan_max_age``) and what a call touches (``touches``); its
tool may be asked (``still_valid``). What is older, touched by another that took effect, or not
valid any more is planned again. The same intent goes on; another one becomes the next revision, and
people are asked once more.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.contracts import MayHaveHappened, NothingHappened, Tool
from ledger.contracts.results import clean
from ledger.errors import DeniedByRule, LedgerError, NotPossible
from ledger.foundation.backoff import Backoff
from ledger.foundation.postgres import database_now
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.models import Ending, Transaction, not_stopped
from ledger.principals import SWEEPER, WORKER, Surface
from ledger.sign_off import rules
from ledger.states import Reasons, State
from ledger.tools import tool_of
from ledger.transactions import sign_offs
from ledger.transactions.deadlines import as_prepared
from ledger.transactions.prepare import (
    Planned,
    Request,
    answer_in_time,
    context_of,
    planned_in_time,
    release_later,
)
from ledger.transactions.requests import revising
from ledger.transactions.requests.talk import longest_of
from ledger.transactions.transitions import FRESH, advance

logger = logging.getLogger(__name__)

# So long a yes of ``still_valid`` counts: until the claim that follows it.
YES_LASTS = timedelta(seconds=30)
BACKOFF = Backoff(first=timedelta(seconds=1), longest=timedelta(minutes=5))
OURS: dict[str, Any] = {"by": WORKER, "via": Surface.SYSTEM}


def look_again(transaction_id: UUID) -> bool:
    """True if it was found still true just now, so that it can be claimed.

    What cannot be found out is tried again after a back-off. Raises ``DatabaseError``.
    """
    row = _taken(transaction_id)
    tool = None if row is None else tool_of(row)
    if row is None or tool is None:
        return False
    if sign_offs.why_not_to_act(row):
        _leave_to_the_claim(row)
        return True
    try:
        return _is_still_true(row, tool)
    except DatabaseError:
        raise
    except Exception as failure:
        logger.warning("%s was not found to be still true: %r", row.pk, failure)
        told = _told_by(failure)
        _rows(row).update(
            lease_expires_at=None,
            next_attempt_at=Now() + BACKOFF.wait(row.attempts),
            attempts=F("attempts") + 1,
            error=f"Before it is carried out: {told or type(failure).__name__}"[:2000],
            error_detail="" if told else ascii(failure)[:2000],  # it may hold secrets
        )
        return False


def _told_by(failure: Exception) -> str:
    """The text of the failure, if it is meant for people."""
    if isinstance(failure, LedgerError):
        return failure.detail
    return clean(str(failure)) if isinstance(failure, NothingHappened | MayHaveHappened) else ""


def _taken(transaction_id: UUID) -> Transaction | None:
    """The row, for one worker at a time."""
    due = Transaction.objects.for_workers().not_true_any_more().past_not_before()
    is_free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=Now())
    lease = Now() + timedelta(seconds=settings.LEASE_S)
    waiting = due.filter(is_free, not_stopped(), pk=transaction_id, state=State.APPROVED)
    if not waiting.update(lease_expires_at=lease):
        return None
    return Transaction.objects.filter(pk=transaction_id).first()


def _rows(row: Transaction) -> QuerySet[Transaction]:
    same = {"pk": row.pk, "state": State.APPROVED, "intent_digest": row.intent_digest}
    return Transaction.objects.filter(**same, fencing_token=row.fencing_token)


def _leave_to_the_claim(row: Transaction) -> None:
    """Let it be claimed: what was changed since it was signed off fails then, and says why."""
    until = Now() + YES_LASTS
    _rows(row).update(lease_expires_at=None, planned_at=Now(), true_until=until)


def _is_still_true(row: Transaction, tool: Tool[Any, Any]) -> bool:
    if not _is_stale(row, tool) and tool.has("still_valid") and _says_yes(row, tool):
        until = Now() + YES_LASTS
        columns = {"lease_expires_at": None, "true_until": until, "error": "", "error_detail": ""}
        return bool(_rows(row).update(**columns))
    request = _request(row, tool)
    context = context_of(request, row.pk, row.held)
    planned, refusal = planned_in_time(request, context, database_now(), again=True)
    if refusal is not None:
        _end(row, refusal)
        return False
    try:
        with atomic():
            return _go_on_with(row, tool, planned)
    except (DeniedByRule, revising.NotEditable) as refused:
        revising.release_plan(request, row, planned)
        _end(row, refused)
        return False
    except BaseException as failure:
        is_unknown = isinstance(failure, CONNECTION_LOST)
        revising.release_plan(request, row, planned, only_by_row=is_unknown)
        raise


def _request(row: Transaction, tool: Tool[Any, Any]) -> Request:
    arguments = tool.validate(row.arguments)
    return revising.request_to_plan(row, tool, arguments, SWEEPER, Surface.SYSTEM)


def _is_stale(row: Transaction, tool: Tool[Any, Any]) -> bool:
    """True if its plan is too old, or another transaction took effect on what it touches."""
    age = tool.contract.plan_max_age
    if age is not None and database_now() >= (row.planned_at or row.created_at) + age:
        return True
    return Transaction.objects.filter(pk=row.pk).touched_since().exists()


def _says_yes(row: Transaction, tool: Tool[Any, Any]) -> bool:
    request = _request(row, tool)
    context = context_of(request, row.pk, row.held)
    return answer_in_time(request, "still_valid", context) is True


def _go_on_with(row: Transaction, tool: Tool[Any, Any], planned: Planned) -> bool:
    """The new plan takes the place of the old one; ``False`` if people are asked once more.

    Raises ``NotPossible`` where it waits again, or was planned again by another worker.
    """
    locked = _rows(row).select_for_update().filter(planned_at=row.planned_at).first()
    if locked is None:
        raise NotPossible()
    links = sign_offs.links_of(row.pk)
    if revising.intent_digest_with(locked, tool, planned) == row.intent_digest:
        _confirm(locked, tool, planned)
        return True
    number = rules.active_number(row.tenant)
    reason = Reasons.PLANNED_AGAIN()
    revised = revising.put_in_place(locked, links, tool, planned, number, reason=reason, **OURS)
    step = min(database_now() + tool.contract.ttl, longest_of(revised, links)) - revised.expires_at
    if step > timedelta(0):
        advance(
            row.pk,
            states.EXTEND,
            **OURS,
            details={"from": seals.as_text(revised.expires_at)},
            expires_at=revised.expires_at + step,
        )
    return False


def _confirm(row: Transaction, tool: Tool[Any, Any], planned: Planned) -> None:
    links, hold = sign_offs.links_of(row.pk), seals.hold_of(row)
    if row.held != planned.held and tool.has("rollback"):
        release_later(row, **OURS)
    row.held, row.hold_expires_at = planned.held, planned.hold_expires_at
    truth = revising.truth_after(tool, row)
    if tool.has("still_valid"):  # it was planned just now
        truth["true_until"] = Now() + YES_LASTS
    digest = seals.row_digest(row, first=links[0].says, deadline=as_prepared(links))
    advance(
        row.pk,
        states.CONFIRM_PLAN,
        **OURS,
        only_if=Q(intent_digest=row.intent_digest, fencing_token=row.fencing_token),
        details={"row_digest": digest, "replaced_hold": hold},
        held=row.held,
        hold_expires_at=row.hold_expires_at,
        planned_at=planned.planned_at,
        lease_expires_at=None,
        error="",
        error_detail="",
        **truth,
    )


def _end(row: Transaction, refusal: LedgerError) -> None:
    reason = Reasons.NOT_PLANNED_AGAIN(text=refusal.detail[:1000])
    advance(
        row.pk,
        states.OUTDATE,
        **OURS,
        reason=reason,
        only_if=Q(intent_digest=row.intent_digest, fencing_token=row.fencing_token),
        work=FRESH,
        ending=Ending.OUTDATED,
        ending_reason=reason,
    )
