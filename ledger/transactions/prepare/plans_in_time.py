"""A plan from a thread of the pool, within the contract's time; what comes later is released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from ledger.contracts import Context, Role
from ledger.errors import (
    AddressSilent,
    InProgress,
    LimitReached,
    PlanRefused,
    PlansBusy,
    PlanTimedOut,
)
from ledger.models import Transaction, new_id
from ledger.tools import silent_addresses
from ledger.transactions.prepare import plan_pool
from ledger.transactions.prepare.abandoned_plans import abandon, is_held_by, key_of_hold
from ledger.transactions.prepare.admission import INSERT_TIME, operation_locked
from ledger.transactions.prepare.drafts import columns
from ledger.transactions.prepare.plan_pool import Place
from ledger.transactions.prepare.planning import Planned, plan
from ledger.transactions.prepare.proposals import Request


def planned_in_time(
    request: Request, context: Context, now: datetime, *, again: bool = False
) -> tuple[Planned, PlanRefused | None]:
    """The plan, and the tool's refusal if it refused.

    ``again``: the operation has a plan, whose hold is in the context. Raises ``PlanTimedOut,
    PlansBusy, LimitReached, InProgress, AddressSilent``, and what ``plan`` raises.
    """
    call = partial(
        plan,
        request.tool,
        request.arguments,
        context,
        stated_reason=request.proposal.reason,
        again=again,
    )
    planned_at = now if again or request.tool.has_to_look_again else None
    if not request.tool.has("plan"):
        planned, refusal = call()
        return replace(planned, planned_at=planned_at), refusal

    def release_late(late: Future[tuple[Planned, PlanRefused | None]]) -> None:
        planned, refusal = (Planned(), None) if late.exception() else late.result()
        if refusal is not None or (again and is_held_by(context.transaction_id, planned.held)):
            return
        row_id = new_id() if again else context.transaction_id
        row = Transaction(**columns(request, row_id, planned, now))
        if again:
            row.operation_key = key_of_hold(row)
        # Another process may plan the operation by now, and have the same hold: once its row is
        # inserted, ``abandon`` sees whose the hold is.
        with operation_locked(row.tenant, row.operation_key, context.timeout + INSERT_TIME):
            release(request, row, only_by_row=True)

    place = Place(request.by, request.tenant, request.tool.name, request.operation_key)
    with _in_turn(request, context.timeout):
        planned, refusal = plan_pool.run(call, place, context.timeout, release_late)
    return replace(planned, planned_at=planned_at), refusal


def answer_in_time(request: Request, role: Role, context: Context) -> Any:
    """The answer of another companion that changes nothing. Raises as ``planned_in_time``."""
    call = partial(request.tool.run, role, request.arguments, context)
    place = Place(request.by, request.tenant, request.tool.name, request.operation_key)
    return plan_pool.run(call, place, context.timeout, lambda _: None)


@contextmanager
def _in_turn(request: Request, timeout: timedelta) -> Iterator[None]:
    """Raises ``AddressSilent`` while another plan finds out whether the address answers."""
    address = silent_addresses.address_of(request.tenant, request.tool, "plan")
    silent_addresses.read()
    with silent_addresses.turn(address, timeout) as may_call:
        if not may_call:
            raise AddressSilent(
                f"{address.address} does not answer; one plan at a time finds out if it does again."
            )
        try:
            yield
        except (LimitReached, PlansBusy, InProgress):
            raise  # it was not asked
        except Exception as failure:
            is_late = isinstance(failure, PlanTimedOut)
            silent_addresses.note(address, is_late or silent_addresses.is_silence(failure))
            raise
    silent_addresses.note(address, is_silence=False)


def release(request: Request, row: Transaction, *, only_by_row: bool) -> None:
    """Give back what the plan of ``row`` held."""
    abandon(
        row,
        request.tool,
        request.arguments,
        by=request.by,
        via=request.via,
        only_by_row=only_by_row,
    )


def context_of(
    request: Request, transaction_id: UUID, held: Mapping[str, Any] | None = None
) -> Context:
    return Context(
        transaction_id=transaction_id,
        tenant=request.tenant,
        operation_key=request.operation_key,
        timeout=request.tool.contract.call_timeout,
        held=held or {},
    )
