"""Approvals of many requests, in a few statements for all of them."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ledger.agents import Caller, callers_of
from ledger.api.rendering import versioned_text
from ledger.contracts import RequiredApprover
from ledger.foundation.batches import Batcher
from ledger.models import Decision, Scope, Transaction
from ledger.principals import Surface
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Vote


class NewApproval(NamedTuple):
    """An approval of a supervising agent, with the hash of its token."""

    token_hash: str
    transaction_id: UUID
    digest: str
    reason: str


# The body of the answer, and its entity tag.
Answer = tuple[str, str]


def _approve_all(approvals: list[NewApproval]) -> list[Answer | None]:
    """``None`` for every approval that is not the first on what its agent may decide."""
    callers = callers_of([approval.token_hash for approval in approvals])
    votes = _votes(approvals, callers)
    moved = coordinator.approve_all(votes) if votes else {}
    decisions: dict[UUID, list[Decision]] = {}
    for decision in Decision.objects.filter(transaction_id__in=list(moved)) if moved else []:
        decisions.setdefault(decision.transaction_id, []).append(decision)
    # Of two that ask for the same one, the first; the other is told so by the view.
    return [
        versioned_text(row, decisions[row.pk])
        if (row := moved.pop(approval.transaction_id, None)) is not None
        else None
        for approval in approvals
    ]


def _votes(approvals: list[NewApproval], callers: list[Caller | None]) -> dict[UUID, Vote]:
    ids = [approval.transaction_id for approval in approvals]
    for_supervisors = Transaction.objects.filter(
        pk__in=ids, required_approver=RequiredApprover.SUPERVISOR
    )
    tenants = dict(for_supervisors.values_list("pk", "tenant"))
    votes: dict[UUID, Vote] = {}
    for approval, caller in zip(approvals, callers, strict=True):
        if caller is not None and _may_decide(caller, tenants.get(approval.transaction_id)):
            vote: Vote = {
                "digest": approval.digest,
                "by": caller.principal,
                "via": Surface.REST,
                "reason": approval.reason,
            }
            votes.setdefault(approval.transaction_id, vote)
    return votes


def _may_decide(caller: Caller, tenant: str | None) -> bool:
    return tenant == caller.tenant and Scope.DECIDE in caller.scopes


approvals: Batcher[NewApproval, Answer | None] = Batcher(_approve_all)
