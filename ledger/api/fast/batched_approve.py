"""Approvals of supervising agents in many requests, in a few statements for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from ledger.agents import Caller, callers_of
from ledger.api.rendering import versioned_text
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
    votes: dict[UUID, Vote] = {}
    for approval, caller in zip(approvals, callers, strict=True):
        if caller is not None and Scope.DECIDE in caller.scopes:
            votes.setdefault(approval.transaction_id, _vote(approval, caller))
    recorded = coordinator.approve_all(votes) if votes else []
    answers = {row.pk: versioned_text(row, _on(row, decision)) for row, decision in recorded}
    # Of several that ask for the same one, the first; the view answers the others.
    return [answers.pop(approval.transaction_id, None) for approval in approvals]


def _vote(approval: NewApproval, caller: Caller) -> Vote:
    return {
        "digest": approval.digest,
        "by": caller.principal,
        "via": Surface.REST,
        "reason": approval.reason,
    }


def _on(row: Transaction, decision: Decision) -> Iterable[Decision]:
    """All decisions on it: where one approval is enough, this is the only one."""
    return [decision] if row.quorum == 1 else row.decisions.all()


approvals: Batcher[NewApproval, Answer | None] = Batcher(_approve_all)
