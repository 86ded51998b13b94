"""The sample of supervisors' decisions that people review, and what they say of them."""

from __future__ import annotations

from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import states
from ledger.errors import AlreadyDecided, InvalidRequest, NotFound, NotPossible, Sentence
from ledger.models import Decision, Review, ReviewVerdict, Transaction
from ledger.principals import Principal, Surface
from ledger.states import State
from ledger.transactions.transitions import advance, check_reason


def is_in_sample(event_hash: str, percent: int) -> bool:
    """True if the decision with this event is reviewed, of so many in a hundred.

    The hash has the database's clock in it: no supervisor knows before its decision whether it
    will be looked at, and everybody can compute afterwards that nobody chose.
    """
    return int(event_hash[:8], 16) % 100 < percent


def put_in_sample(decision: Decision, tenant: str, percent: int, event_hash: str) -> None:
    """Let people review the decision with this event, if it falls into the sample."""
    if is_in_sample(event_hash, percent):
        Review.objects.create(decision=decision, tenant=tenant, agent=decision.principal)


def review(
    review_id: int, verdict: ReviewVerdict, *, by: Principal, via: Surface, reason: str
) -> Review:
    """Record what a person thinks of a supervisor's decision; it changes nothing that was decided.

    Saying the same again returns the present row. Raises ``InvalidRequest`` without a reason for
    having decided otherwise, ``AlreadyDecided, NotFound``, and ``NotPossible`` before the
    transaction is decided and after its content was erased.
    """
    check_reason(reason)
    if verdict == ReviewVerdict.OTHERWISE and not reason.strip():
        raise InvalidRequest(Sentence("Say what you would have decided, and why."))
    with atomic():
        row = Review.objects.select_for_update().filter(pk=review_id).first()
        if row is None:
            raise NotFound(Sentence("There is no such review."))
        if row.verdict:
            if (row.reviewer, row.verdict) == (str(by), verdict):
                return row
            raise AlreadyDecided(Sentence("{name} has reviewed it.", name=row.reviewer_name))
        _lock_reviewable(row)
        Review.objects.filter(pk=review_id).update(
            verdict=verdict, reviewer=str(by), reviewer_name=by.display_name, at=Now()
        )
        advance(
            row.decision.transaction_id,
            states.REVIEW,
            by=by,
            via=via,
            reason=reason,
            details={"review": str(verdict), "decision_by": row.agent},
        )
    return Review.objects.get(pk=review_id)


def _lock_reviewable(row: Review) -> None:
    """Keep decisions and the erasure away until the review is written."""
    tx = Transaction.objects.select_for_update().get(pk=row.decision.transaction_id)
    if tx.state == State.PREPARED:
        raise NotPossible(Sentence("It is not decided yet; review it afterwards."), snapshot=tx)
    if tx.content_erased_at is not None:
        raise NotPossible(
            Sentence("Its content was erased: there is nothing left to review."), snapshot=tx
        )
