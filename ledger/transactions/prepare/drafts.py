"""A transaction before it is inserted: its columns, from a request and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ledger import seals
from ledger.contracts import RequiredApprover, Tool
from ledger.errors import PlanRefused
from ledger.models import Tenant, TransactionRow, new_row
from ledger.sign_off.rules import Judgement, open_seats
from ledger.states import State
from ledger.transactions.prepare.planning import Planned
from ledger.transactions.prepare.proposals import Request


class New(NamedTuple):
    """A transaction to be inserted, and the response to its request."""

    request: Request
    row: TransactionRow
    status: int
    answer: str
    contents: tuple[bytes, ...] = ()  # of its evidence


def draft(
    request: Request,
    transaction_id: UUID,
    planned: Planned,
    created_at: datetime,
    judgement: Judgement | None,
) -> New:
    """A transaction that waits for sign-off, on the terms of the tenant's rules."""
    row = _row(request, transaction_id, planned, created_at, judgement)
    row.state = State.PREPARED
    return New(request, row, 201, request.render(row, None), planned.contents)


def refused_draft(
    request: Request,
    transaction_id: UUID,
    planned: Planned,
    created_at: datetime,
    refusal: PlanRefused,
    judgement: Judgement | None = None,
) -> New:
    """The refusal of a plan, stored so that a repeated request gets the same answer."""
    row = _row(request, transaction_id, planned, created_at, judgement)
    row.state, row.ended_at = State.REFUSED, created_at
    row.ending_reason = row.error = refusal.detail[:2000]
    seals.refuse_unsafe_text([row.error, row.action_summary])
    return New(request, row, refusal.status, row.error)


def _row(
    request: Request,
    transaction_id: UUID,
    planned: Planned,
    created_at: datetime,
    judgement: Judgement | None,
) -> TransactionRow:
    values = columns(request, transaction_id, planned, created_at)
    if judgement is not None:
        values |= {
            "terms": judgement.as_json(),
            "required_approver": judgement.terms.required_approver.value,
            "quorum": judgement.terms.quorum,
            "open_seats": open_seats(judgement.terms, ()),
        }
    row = new_row(values)
    row.intent_digest = seals.digest_of(seals.intent_of(row))
    return row


def columns(
    request: Request, transaction_id: UUID, planned: Planned, created_at: datetime
) -> dict[str, Any]:
    """The columns of a new row that are not at their defaults, but for its state and digest.

    With a copy of the contract: a later edit of the tool changes no transaction.
    """
    proposal, contract = request.proposal, request.tool.contract
    return {
        "id": transaction_id,
        "tenant": request.tenant,
        "proposed_by": str(request.by),
        "proposed_by_name": request.by.display_name,
        "stated_reason": proposal.reason,
        "run_id": proposal.run_id,
        "step_id": proposal.step_id,
        "trace_id": proposal.trace_id,
        "traceparent": proposal.traceparent,
        "payload": proposal.arguments,
        "input_hash": request.input_hash,
        "operation_key": request.operation_key,
        "created_at": created_at,
        "expires_at": created_at + request.ttl,
        "retain_until": created_at + contract.retention,
        "tool": request.tool.name,
        "tool_version": request.tool.version,
        "replaces": proposal.replaces,
        **truth_of(request.tool, request.tenant, request.meaning, created_at),
        **contract.sealed_terms(),
        "required_policy": contract.required_policy or _policy_of_tenant(request),
        **planned.columns(),
    }


def truth_of(
    tool: Tool[Any, Any], tenant: str, meaning: Mapping[str, Any], planned_at: datetime
) -> dict[str, Any]:
    """The columns that say until when the plan is taken for true, and what it touches."""
    if not tool.has_to_look_again:
        return {}
    until = planned_at if tool.has("still_valid") else None
    if until is None and tool.contract.plan_max_age is not None:
        until = planned_at + tool.contract.plan_max_age
    return {"touches": tool.contract.touched_by(tenant, meaning) or None, "true_until": until}


def _policy_of_tenant(request: Request) -> str:
    """The document that its operator has pinned for all that supervisors sign off."""
    if request.tool.contract.required_approver != RequiredApprover.SUPERVISOR:
        return ""
    pinned = Tenant.objects.filter(pk=request.tenant).values_list("required_policy", flat=True)
    return pinned.first() or ""
