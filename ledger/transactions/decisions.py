"""One decision of one principal on one intent digest, and the refusals of those who came late."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, Unpack
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.agents import Citation, sealed_citation
from ledger.errors import (
    AlreadyDecided,
    DigestMismatch,
    Expired,
    InvalidRequest,
    NotAllowed,
    NotFound,
    NotPossible,
    OwnTransaction,
    Sentence,
    ToolHeld,
)
from ledger.models import Agent, Decision, Ending, Transaction, Verdict
from ledger.principals import POLICY, WORKER, Principal, Surface
from ledger.seals import Link
from ledger.states import EventKind, Reasons, State
from ledger.tools import is_for_agent, why_tool_held
from ledger.transactions import reviews, sign_offs
from ledger.transactions.keepers import agent_of, keepers_of
from ledger.transactions.reasons import check_reason
from ledger.transactions.transitions import FRESH, advance


def approve_by_policy(transaction_id: UUID, digest: str) -> Transaction:
    """Sign off a transaction whose contract requires no approver, with POLICY as the decider."""
    return decide(
        transaction_id,
        Verdict.APPROVE,
        digest=digest,
        by=POLICY,
        via=Surface.SYSTEM,
        reason=Reasons.NO_APPROVER(),
    )


class Vote(TypedDict):
    """A decision on what its maker saw."""

    digest: str
    by: Principal
    via: Surface
    reason: NotRequired[str]
    policy: NotRequired[Citation | None]  # of a supervising agent; sealed with the decision


REASON_IS_MISSING = {
    Verdict.REJECT: Sentence("A rejection needs a reason; it is what the agent learns from."),
    Verdict.PASS_ON: "Say why it is passed on: people read it before they decide.",
}


def decide(transaction_id: UUID, verdict: Verdict, **wanted: Unpack[Vote]) -> Transaction:
    """Record one decision; the one that completes the quorum, or rejects, moves the transaction.

    Deciding the same again returns the present row. Raises ``AlreadyDecided, DigestMismatch,
    Expired, OwnTransaction, NotAllowed, NotFound, InvalidRequest, ToolHeld``.
    """
    vote = _Vote(verdict, **wanted)
    if verdict in REASON_IS_MISSING and not vote.reason.strip():
        raise InvalidRequest(REASON_IS_MISSING[verdict])
    check_reason(vote.reason)
    try:
        with atomic():
            return _record(transaction_id, vote)
    except ToolHeld:
        raise
    except NotPossible as refusal:
        # Read again: what the refused attempt had written was rolled back.
        snapshot = Transaction.objects.get(pk=snapshot_of(refusal).pk)
        return _same_again_or_refuse(snapshot, vote)


@dataclass(frozen=True, slots=True)
class _Vote:
    """One decision that somebody wants to make."""

    verdict: Verdict
    digest: str
    by: Principal
    via: Surface
    reason: str = ""
    policy: Citation | None = None


def _record(transaction_id: UUID, vote: _Vote) -> Transaction:
    open_for_decision = Q(intent_digest=vote.digest, state=State.PREPARED, expires_at__gt=Now())
    row = (
        Transaction.objects.select_for_update()
        .filter(open_for_decision & ~Q(proposed_by=str(vote.by)), pk=transaction_id)
        .first()
    )
    if row is None:
        raise NotPossible(snapshot=Transaction.objects.filter(pk=transaction_id).first())
    links = sign_offs.links_of(row.pk)
    earlier = [link for link in links if link.kind in sign_offs.DECISIONS]
    if any(link.principal == str(vote.by) for link in earlier):
        raise NotPossible(snapshot=row)
    _check_may_decide(row, vote, earlier)
    agent = agent_of(vote.by)
    sealed = _sealed(row, vote, agent)
    _check_policy(vote, sealed, links[0])
    keepers = keepers_of(row.proposed_by, row.created_at)
    if vote.verdict != Verdict.REJECT:  # that fills no seat, and the keeper may stop its agent
        _check_is_no_keeper(vote, sealed, keepers, links[0])
    approvers = _approvers(row, vote, earlier, sealed)
    decision = Decision.objects.create(
        transaction=row,
        principal=str(vote.by),
        principal_name=vote.by.display_name,
        verdict=vote.verdict,
        intent_digest=vote.digest,
        via=vote.via,
        reason=vote.reason,
        **sealed,
    )
    sealed |= {
        "intent_digest": vote.digest,
        "verdict": str(vote.verdict),
        "decision_at": seals.as_text(decision.at),
    }
    if keepers:
        sealed[seals.PROPOSER_KEPT_BY] = sorted(keepers)
    if vote.by.is_agent:
        sealed["review_percent"] = 100 if agent is None else agent.review_percent
    moved = _advance(row, vote, sealed, approvers)
    if vote.by.is_agent and vote.verdict != Verdict.PASS_ON:
        reviews.put_in_sample(decision, row.tenant, sealed["review_percent"])
    return moved


def _check_is_no_keeper(
    vote: _Vote, sealed: Mapping[str, Any], keepers: Collection[str], first: Link
) -> None:
    """Raises ``NotAllowed``: an agent and its keeper are one voice, and nobody signs for itself."""
    voter = sign_offs.voter_of(str(vote.by), sealed)
    if not sign_offs.is_of_a_keeper(voter, keepers, first.says):
        return
    if voter == sign_offs.UNKNOWN_KEEPER:
        raise NotAllowed(
            Sentence(
                "Nobody is named who keeps you, so it may be who keeps the agent that proposed it."
            ),
            hint="An operator names your keeper in the admin.",
        )
    raise NotAllowed(
        "The agent that proposed it has the same keeper; somebody else has to decide."
        if vote.by.is_agent
        else "You keep the agent that proposed it; somebody else has to decide."
    )


def _check_policy(vote: _Vote, sealed: Mapping[str, Any], first: Link) -> None:
    """Raises ``InvalidRequest``: a supervisor approves by the policy of the contract, or not."""
    is_approval = vote.verdict == Verdict.APPROVE
    if is_approval and sign_offs.lacks_policy(str(vote.by), sealed, first.says):
        required = first.says[seals.REQUIRED_POLICY]
        raise InvalidRequest(
            Sentence(
                "The contract names the policy document {required}: an approval has to cite it.",
                required=required,
            ),
            hint="GET /api/v1/pending has its text. Cite it, reject, or pass it on.",
        )


def _sealed(row: Transaction, vote: _Vote, agent: Agent | None) -> dict[str, Any]:
    """Members the event and the row of a decision have besides: of agents, keeper and policy."""
    if not vote.by.is_agent:
        return {}
    sealed: dict[str, Any] = {"kept_by": "" if agent is None else agent.kept_by}
    if vote.policy is not None:
        sealed["policy"] = sealed_citation(row.tenant, vote.policy)
    return sealed


def _approvers(
    row: Transaction, vote: _Vote, earlier: list[Link], sealed: Mapping[str, Any]
) -> set[str]:
    """Everybody who has approved once this vote counts. Raises ``NotAllowed`` for a second vote
    of one keeper."""
    approvers = sign_offs.approvers_in(earlier)
    if vote.verdict != Verdict.APPROVE:
        return approvers
    voter = sign_offs.voter_of(str(vote.by), sealed)
    if voter in approvers:
        raise NotAllowed(
            Sentence(
                "An agent of the same keeper has approved it, or the keeper: together they have "
                "one vote, and the contract of {tool} asks for {number}.",
                tool=row.tool,
                number=row.quorum,
            )
        )
    return approvers | {voter}


def _advance(
    row: Transaction, vote: _Vote, details: Mapping[str, Any], approvers: set[str]
) -> Transaction:
    event: dict[str, Any] = {
        "by": vote.by,
        "via": vote.via,
        "reason": vote.reason,
        "not_after": row.expires_at,
        "details": details,
    }
    if vote.verdict == Verdict.PASS_ON:
        return advance(row.pk, states.PASS_ON, **event)
    if vote.verdict == Verdict.REJECT:
        ending: dict[str, Any] = {
            "ending": Ending.REJECTED,
            "ending_reason": vote.reason,
            "decided_at": Now(),
        }
        return advance(row.pk, states.REJECT, **ending, work=FRESH, **event)
    if len(approvers) < row.quorum and vote.by != POLICY:
        return advance(row.pk, states.RECORD_APPROVAL, **event)
    signed_off = advance(row.pk, states.APPROVE, decided_at=Now(), work=FRESH, **event)
    return _hand_over(signed_off) if is_for_agent(row) else signed_off


def _hand_over(row: Transaction) -> Transaction:
    """End what the agent carries out itself. What was changed since is left to a worker, which
    finds that out before anything else."""
    if sign_offs.why_not_to_act(row):
        return row
    return advance(
        row.pk,
        states.HAND_OVER,
        by=WORKER,
        via=Surface.SYSTEM,
        reason="The agent carries it out itself; no receipt comes back.",
        ended_at=Now(),
    )


def _check_may_decide(row: Transaction, vote: _Vote, earlier: list[Link]) -> None:
    """Check, whatever the surface, that the contract accepts this kind of principal."""
    by, in_contract = str(vote.by), row.required_approver
    if vote.verdict == Verdict.PASS_ON and not sign_offs.may_pass_on(by, in_contract):
        raise NotAllowed("Only a supervising agent passes a decision on.")
    if not sign_offs.may_sign_off(by, in_contract):
        raise NotAllowed(
            Sentence("The contract of {tool} asks for a person to decide.", tool=row.tool)
            if vote.by.is_agent
            else Sentence("The contract of {tool} asks for an approver.", tool=row.tool)
        )
    if not sign_offs.may_sign_off(by, sign_offs.required_approver(in_contract, earlier)):
        raise NotPossible(snapshot=row)
    if vote.verdict == Verdict.APPROVE and row.tool_version is not None:
        _check_is_not_held(row)


def _check_is_not_held(row: Transaction) -> None:
    """Raises ``ToolHeld``: nobody signs off what may be something else by now."""
    if why := why_tool_held(row.tenant, row.tool):
        text = Sentence("{tool} is held. {why}", tool=row.tool, why=Sentence(why))
        raise ToolHeld(text, snapshot=row)


def _same_again_or_refuse(snapshot: Transaction, vote: _Vote) -> Transaction:
    if snapshot.proposed_by == str(vote.by):
        raise OwnTransaction(transaction_id=str(snapshot.pk))
    own = snapshot.decisions.filter(principal=str(vote.by)).first()
    if own is not None and (own.verdict, own.intent_digest) == (vote.verdict, vote.digest):
        return snapshot
    if snapshot.state != State.PREPARED:
        raise already_decided(snapshot)
    if snapshot.intent_digest != vote.digest:
        raise DigestMismatch(snapshot=snapshot, intent_digest=snapshot.intent_digest)
    if own is not None:
        raise AlreadyDecided(YOU_HAVE[Verdict(own.verdict)], snapshot=snapshot)
    passed_on = snapshot.decisions.filter(verdict=Verdict.PASS_ON).first()
    if passed_on is not None and vote.by.is_agent:
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


YOU_HAVE = {
    Verdict.APPROVE: Sentence("You have approved it."),
    Verdict.REJECT: Sentence("You have rejected it."),
    Verdict.PASS_ON: Sentence("You have passed it on to people."),
}


DECIDED: dict[str, Sentence] = {
    EventKind.APPROVED: Sentence("Approved"),
    EventKind.REJECTED: Sentence("Rejected"),
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
