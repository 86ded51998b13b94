"""Advice of supervising agents on what people decide. It moves nothing, and is never a vote."""

from __future__ import annotations

from uuid import UUID

from django.db.transaction import atomic

from ledger import seals, states
from ledger.agents import Citation
from ledger.errors import InvalidRequest, NotAllowed, NotFound, NotPossible, OwnTransaction
from ledger.models import Transaction, Verdict
from ledger.principals import Principal, Surface
from ledger.transactions.cases import look_at_one
from ledger.transactions.late_decisions import same_again_or_refuse
from ledger.transactions.sign_offs.advice import (
    RECOMMENDED,
    RECOMMENDS,
    is_of_same_keeper,
    people_decide,
    standing_advice,
)
from ledger.transactions.transitions import advance, check_reason

MOST = 20  # agents that advise on one revision


def advise(
    transaction_id: UUID,
    recommends: Verdict,
    *,
    digest: str,
    by: Principal,
    via: Surface,
    reason: str,
    policy: Citation | None = None,
) -> Transaction:
    """Leave what this agent would decide, and why, for the people who do.

    The same again returns the present row. Raises ``NotPossible`` for other advice on the same
    revision, ``NotAllowed`` where people do not decide alone, and for who proposed it or has its
    keeper; ``InvalidRequest, NotFound`` and what a late decision raises.
    """
    if recommends not in RECOMMENDED or not reason.strip():
        raise InvalidRequest("Recommend to approve or to reject, and say why.")
    check_reason(reason)
    with atomic():
        case = look_at_one(transaction_id, by)
        if case is None or case.row.intent_digest != digest:
            row = Transaction.objects.filter(pk=transaction_id).first()
            if row is None:
                raise NotFound()
            same_again_or_refuse(row, None, by=by, digest=digest)
            raise NotPossible(snapshot=row, state=row.state)
        row, links = case.row, case.links
        if row.proposed_by == str(by):
            raise OwnTransaction(transaction_id=str(row.pk))
        if not by.is_agent or not people_decide(row.required_approver, links):
            raise NotAllowed(
                "Advice is of supervising agents, on what people decide.",
                hint="Where the contract asks for a supervisor: approve, reject, or pass it on.",
            )
        details = {
            **case.seals_of_agent(by, policy),
            "intent_digest": digest,
            RECOMMENDS: str(recommends),
            **({seals.PROPOSER_KEPT_BY: sorted(case.keepers)} if case.keepers else {}),
        }
        if is_of_same_keeper(str(by), details):
            raise NotAllowed("The agent that proposed it has the same keeper as you, or may.")
        given = standing_advice(links)
        if own := [link for link in given if link.principal == str(by)]:
            is_same = own[0].reason_digest == seals.digest_of_text(reason)
            if is_same and own[0].says.get(RECOMMENDS) == recommends:
                return row
            raise NotPossible("You have advised on it already.", snapshot=row, state=row.state)
        if len(given) >= MOST:
            raise NotPossible("So many agents have advised on it already.", snapshot=row)
        return advance(row.pk, states.ADVISE, by=by, via=via, reason=reason, details=details)
