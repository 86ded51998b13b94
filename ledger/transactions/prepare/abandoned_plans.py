"""Releases what a plan held when its transaction could not be inserted.

A row is inserted in ROLLING_BACK, and workers retry its rollback until that succeeds. Until then
it has the operation key, so that no later plan of the operation overlaps with this one.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.transaction import atomic
from pydantic import BaseModel

from ledger import seals, states
from ledger.contracts import Context, Tool
from ledger.contracts.results import storable
from ledger.errors import source_of
from ledger.events import append_event
from ledger.foundation.postgres import sessions
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.models import Ending, Transaction
from ledger.principals import SWEEPER, WORKER, Principal, Surface
from ledger.states import Reasons, State
from ledger.transactions.prepare.proposals import OPERATION_KEY_MAX

logger = logging.getLogger(__name__)


def abandon(
    row: Transaction,
    tool: Tool[Any, Any],
    arguments: BaseModel,
    *,
    by: Principal,
    via: Surface,
    only_by_row: bool = False,
) -> None:
    """Have what ``plan`` held released. Never raises: the caller has a failure to report.

    ``only_by_row``: without a row nothing is released. Its INSERT was sent and not answered, so it
    may be committed later; or another transaction of the operation may have the same hold.
    """
    if not tool.has("rollback"):
        return
    try:
        _insert_for_rollback(row, arguments, by, via)
    except CONNECTION_LOST:
        sessions.end()  # also after a wait for a lock: the session may have locks of the request
        try:
            _insert_for_rollback(row, arguments, by, via)
        except Exception:
            _release_without_row(row, tool, arguments, only_by_row)
    except Exception:
        _release_without_row(row, tool, arguments, only_by_row)


def release_later(row: Transaction, *, by: Principal, via: Surface) -> None:
    """Have workers release what ``row`` holds, as it is replaced by another plan.

    In the caller's database transaction, so that a hold is never without somebody who releases it.
    """
    held = Transaction(
        **{
            each.attname: getattr(row, each.attname)
            for each in Transaction._meta.concrete_fields
            if each.attname in OF_A_HOLD
        }
    )
    if by == WORKER:
        by = SWEEPER  # nobody acts on what it has itself proposed, and a worker has to
    held.proposed_by, held.proposed_by_name = str(by), by.display_name
    _enter(held, row.arguments, Reasons.REPLACED_PLAN())
    held.action_summary = f"{row.tool}: releases what a former plan of {row.short_id} holds"
    held.operation_key = key_of_hold(held)
    _insert(held, by, via)


# What a row that is rolled back has of the one whose hold it releases.
OF_A_HOLD = frozenset(
    {
        *("tenant", "tool", "tool_version", "owner_service", "risk_level", "consequence_level"),
        *("operation_key", "held", "hold_expires_at", "created_at", "expires_at", "retain_until"),
        *("input_hash", "payload", "required_approver"),
    }
)


def _insert_for_rollback(
    row: Transaction, arguments: BaseModel, by: Principal, via: Surface
) -> None:
    if Transaction.objects.filter(pk=row.pk).exists():
        return  # the INSERT was committed after all, and only its answer was lost
    _enter(row, arguments.model_dump(mode="json"), Reasons.NOT_ENTERED())
    try:
        _insert(row, by, via)
    except IntegrityError:
        holder = Transaction.objects.holding(row.tenant, row.operation_key).first()
        if holder is None or holder.held == row.held:
            logger.info("what %s held belongs to another transaction by now", row.pk)
            return
        row.operation_key = key_of_hold(row)
        _insert(row, by, via)


def is_held_by(transaction_id: UUID, held: dict[str, Any]) -> bool:
    """True if it is what the transaction holds now: a provider may have granted the same again."""
    return Transaction.objects.filter(pk=transaction_id, held=held).exists()


def key_of_hold(row: Transaction) -> str:
    """An operation key for a hold beside that of the operation: a tool that is asked to release it
    by this key cannot close the operation itself."""
    own = f"#{row.pk}"
    return row.operation_key[: OPERATION_KEY_MAX - len(own)] + own


def _enter(row: Transaction, arguments: dict[str, Any], why: str) -> None:
    row.arguments = arguments
    row.action_summary = f"{row.tool}: what it planned could not be put before an approver"
    row.warnings, row.amount, row.currency, row.evidence = [], None, "", None
    row.held = storable(row.held) if row.held else {}
    row.state, row.ending = State.ROLLING_BACK, Ending.ABANDONED
    row.ending_reason = row.error = why
    row.ending_reason_source = row.error_source = source_of(why)


def _insert(row: Transaction, by: Principal, via: Surface) -> None:
    row.intent_digest = seals.digest_of(seals.intent_of(row))
    with atomic():
        row.save(force_insert=True)
        append_event(
            row.pk,
            transaction_id=row.pk,
            tenant=row.tenant,
            kind=states.ABANDON.kind,
            to_state=row.state,
            by=by,
            via=via,
            reason=row.ending_reason,
            details=seals.first_details(row),
        )


def _release_without_row(
    row: Transaction, tool: Tool[Any, Any], arguments: BaseModel, only_by_row: bool
) -> None:
    """Roll back here, unless a transaction that is approved later may rely on the hold."""
    logger.exception("no row could be inserted for what %s held", row.pk)
    if not only_by_row:
        _roll_back_here(row, tool, arguments)
        return
    logger.error(
        "NOT RELEASED, because a row may rely on it: what transaction %s of %s held lapses by "
        "itself: %s",
        row.pk,
        row.tool,
        row.held,
    )


def _roll_back_here(row: Transaction, tool: Tool[Any, Any], arguments: BaseModel) -> None:
    """Try the rollback once, here: no row could be written. A failure is logged for operators."""
    context = Context(
        transaction_id=row.pk,
        tenant=row.tenant,
        operation_key=row.operation_key,
        timeout=tool.contract.call_timeout,
        held=row.held,
    )
    try:
        tool.run("rollback", arguments, context)
    except Exception:
        logger.exception(
            "NOT RELEASED: transaction %s of %s, operation key %s, held %s; it lapses by itself",
            row.pk,
            row.tool,
            row.operation_key,
            row.held,
        )
