"""A transaction before it is inserted: its columns, from a request and its plan."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.transactions.prepare.planning import Planned
from ledger.transactions.prepare.proposals import Request


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
        **contract.sealed_terms(),
        **planned.columns(),
    }
