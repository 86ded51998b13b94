"""Answers to decisions and withdrawals that came late, or twice: what was decided, and by whom."""

from __future__ import annotations

from uuid import UUID

from ledger.errors import (
    AlreadyDecided,
    DigestMismatch,
    Expired,
    NotAllowed,
    NotFound,
    NotPossible,
    OwnTransaction,
    Revised,
    Sentence,
)
from ledger.models import Decision, Transaction, Verdict
from ledger.principals import Principal
from ledger.sign_off.revisions import changes_of
from ledger.states import EventKind, State


def same_again_or_refuse(
    snapshot: Transaction, verdict: Verdict | None, *, by: Principal, digest: str
) -> Transaction:
    """The present row for who has decided the same before; without a verdict for nobody.

    Raises ``AlreadyDecided, Revised, DigestMismatch, Expired, OwnTransaction``.
    """
    if snapshot.proposed_by == str(by):
        raise OwnTransaction(transaction_id=str(snapshot.pk))
    own = snapshot.decisions.filter(principal=str(by)).first()
    if own is not None and (own.verdict, own.intent_digest) == (verdict, digest):
        return snapshot
    if snapshot.state != State.PREPARED:
        raise already_decided(snapshot)
    if snapshot.intent_digest != digest:
        error = DigestMismatch if snapshot.revision == 1 else Revised
        changed = [change.as_json() for change in changes_of(snapshot)]
        raise error(snapshot=snapshot, intent_digest=snapshot.intent_digest, changed=changed)
    if own is not None:
        raise AlreadyDecided(YOU_HAVE[Verdict(own.verdict)], snapshot=snapshot)
    passed_on = snapshot.decisions.filter(verdict=Verdict.PASS_ON).first()
    if passed_on is not None and by.is_agent:
        raise AlreadyDecided(
            Sentence(
                "{name} has passed it on: people decide on it.", name=passed_on.principal_name
            ),
            snapshot=snapshot,
            decided_by=passed_on.principal,
            decision=str(passed_on.verdict),
        )
    text = Sentence("Its time was up; nobody can decide on it any more.")
    raise Expired(text, snapshot=snapshot)


def withdrawn_or_refuse(transaction_id: UUID, by: Principal) -> Transaction:
    """The present row for who has withdrawn an approval before, and not approved since.

    Raises ``NotPossible, NotAllowed, NotFound``.
    """
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    decisions = Decision.with_withdrawn.filter(transaction=row, principal=str(by))
    latest = decisions.order_by("at").last()
    if latest is None or latest.verdict != Verdict.APPROVE:
        raise NotAllowed(Sentence("Only who has approved it can undo that."))
    if latest.is_withdrawn:
        return row
    if row.ending:
        raise already_decided(row)
    waits = row.state in {State.PREPARED, State.APPROVED}
    raise NotPossible(
        Sentence("The time to undo it is over. Nothing was undone.")
        if waits
        else Sentence("It had begun already. Nothing was undone."),
        snapshot=row,
        state=row.state,
    )


YOU_HAVE = {
    Verdict.APPROVE: Sentence("You have approved it."),
    Verdict.REJECT: Sentence("You have rejected it."),
    Verdict.SEND_BACK: Sentence("You have sent it back."),
    Verdict.PASS_ON: Sentence("You have passed it on to people."),
}


DECIDED: dict[str, Sentence] = {
    EventKind.APPROVED: Sentence("Approved"),
    EventKind.REJECTED: Sentence("Rejected"),
    EventKind.SENT_BACK: Sentence("Sent back"),
    EventKind.EXPIRED: Sentence("Expired"),
    EventKind.CANCELED: Sentence("Canceled"),
    EventKind.REFUSED: Sentence("Refused"),
}


def already_decided(snapshot: Transaction) -> NotPossible:
    """The error that says who decided what, when and on which surface."""
    event = snapshot.events.filter(kind__in=list(DECIDED)).order_by("-seq").first()
    if event is None:
        return AlreadyDecided(
            Sentence("It is {state}.", state=snapshot.get_state_display()),
            snapshot=snapshot,
        )
    error = Expired if event.kind == EventKind.EXPIRED else AlreadyDecided
    return error(
        Sentence(
            "{outcome} by {name} via {surface} at {at} UTC.",
            outcome=DECIDED[event.kind],
            name=event.principal_name,
            surface=event.via,
            at=f"{event.at:%Y-%m-%d %H:%M:%S}",
        ),
        snapshot=snapshot,
        decided_by=event.principal,
        decided_by_name=event.principal_name,
        decision=event.kind,
        decided_via=event.via,
        decided_at=event.at.isoformat(),
        state=snapshot.state,
    )


def snapshot_of(refusal: NotPossible) -> Transaction:
    if refusal.snapshot is None:
        raise NotFound() from refusal
    snapshot: Transaction = refusal.snapshot
    return snapshot
