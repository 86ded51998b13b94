"""One decision of one principal on one intent digest, and the refusals of those who came late."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack
from uuid import UUID

from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.agents import Citation, sealed_citation
from ledger.errors import (
    InvalidRequest,
    LedgerError,
    NotAllowed,
    NotFound,
    NotPossible,
    Sentence,
    ToolHeld,
    source_of,
)
from ledger.foundation.postgres import of_each
from ledger.models import Agent, Decision, Ending, Transaction, Verdict
from ledger.principals import POLICY, WORKER, Principal, Surface
from ledger.seals import Link
from ledger.states import Move, Reasons, State
from ledger.tools import is_for_agent, why_tool_held
from ledger.transactions import reviews, sign_offs
from ledger.transactions.cases import Case, look_at
from ledger.transactions.late_decisions import same_again_or_refuse
from ledger.transactions.reasons import check_reason
from ledger.transactions.transitions import (
    FRESH,
    CompiledMove,
    OneMove,
    WorkColumns,
    advance,
    advance_all_at_once,
    compile_move,
)


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
    seconds_shown: NotRequired[float | None]  # how long a person had it before them; sealed, too


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
            case = look_at({transaction_id: vote.by}).get(transaction_id)
            [recorded] = _record([_judge(case, vote)])
            return recorded.row
    except ToolHeld:
        raise
    except NotPossible as refusal:
        # Read only now: what the refused attempt had written was rolled back.
        snapshot = Transaction.objects.filter(pk=transaction_id).first()
        if snapshot is None:
            raise NotFound() from refusal
        return same_again_or_refuse(snapshot, verdict, by=vote.by, digest=vote.digest)


def approve_all(votes: Mapping[UUID, Vote]) -> list[Recorded]:
    """Approve many transactions in a few statements, each of the voter's own tenant.

    Waits for nobody's lock. Those that it does not approve, ``decide`` does, or says why not.
    """
    wanted = {pk: _Vote(Verdict.APPROVE, **vote) for pk, vote in votes.items()}
    try:
        with atomic():
            cases = look_at({pk: vote.by for pk, vote in wanted.items()}, skip_locked=True)
            judged = [*_possible(cases, wanted)]
            return _record(judged)
    except NotPossible:  # one was too late in the end, so nothing was written
        return []


def _possible(cases: Mapping[UUID, Case], votes: Mapping[UUID, _Vote]) -> Iterator[_Judged]:
    for pk, case in cases.items():
        if case.row.tenant != votes[pk].by.tenant:
            continue
        with suppress(LedgerError):
            check_reason(votes[pk].reason)
            yield _judge(case, votes[pk])


@dataclass(frozen=True, slots=True)
class _Vote:
    """One decision that somebody wants to make."""

    verdict: Verdict
    digest: str
    by: Principal
    via: Surface
    reason: str = ""
    policy: Citation | None = None
    seconds_shown: float | None = None


class Recorded(NamedTuple):
    """The transaction as it is then, and the decision."""

    row: Transaction
    decision: Decision


@dataclass(frozen=True, slots=True)
class _Judged:
    """A vote that counts: the move that it makes, and what its event and its row say of it."""

    row: Transaction
    vote: _Vote
    move: Move[State]
    of_agent: Mapping[str, Any]  # who keeps it, and its policy: in the row of the decision, too
    details: Mapping[str, Any]


def _judge(case: Case | None, vote: _Vote) -> _Judged:
    """Decide by ``case`` whether the vote counts, and what it moves. Raises what ``decide`` raises.

    Queries only for a policy that is cited, and whether a registered tool is held.
    """
    if case is None or not _is_open_for(case.row, vote):
        raise NotPossible()
    row, first = case.row, case.links[0]
    earlier = [link for link in case.links if link.kind in sign_offs.DECISIONS]
    if any(link.principal == str(vote.by) for link in earlier):
        raise NotPossible()
    _check_may_decide(row, vote, earlier)
    of_agent = _of_agent(row, vote, case.agent)
    _check_policy(vote, of_agent, first)
    if vote.verdict != Verdict.REJECT:  # that fills no seat, and the keeper may stop its agent
        _check_is_no_keeper(vote, of_agent, case.keepers, first)
    approvers = _approvers(row, vote, earlier, of_agent)
    details = {**of_agent, "intent_digest": vote.digest, "verdict": str(vote.verdict)}
    if case.keepers:
        details[seals.PROPOSER_KEPT_BY] = sorted(case.keepers)
    if vote.seconds_shown is not None:
        details["seconds_shown"] = round(vote.seconds_shown, 1)
    if vote.by.is_agent:
        details["review_percent"] = 100 if case.agent is None else case.agent.review_percent
    return _Judged(row, vote, _move_of(row, vote, approvers), of_agent, details)


def _is_open_for(row: Transaction, vote: _Vote) -> bool:
    return row.intent_digest == vote.digest and row.proposed_by != str(vote.by)


def _move_of(row: Transaction, vote: _Vote, approvers: set[str]) -> Move[State]:
    if vote.verdict == Verdict.PASS_ON:
        return states.PASS_ON
    if vote.verdict == Verdict.REJECT:
        return states.REJECT
    if len(approvers) < row.quorum and vote.by != POLICY:
        return states.RECORD_APPROVAL
    return states.APPROVE


def _record(judged: Sequence[_Judged]) -> list[Recorded]:
    """Write the decisions and make their moves. Raises ``NotPossible`` for one that is too late."""
    if not judged:
        return []
    decisions = Decision.objects.bulk_create(
        Decision(
            transaction=each.row,
            principal=str(each.vote.by),
            principal_name=each.vote.by.display_name,
            verdict=each.vote.verdict,
            intent_digest=each.vote.digest,
            via=each.vote.via,
            reason=each.vote.reason,
            **each.of_agent,
        )
        for each in judged
    )
    details = [
        {**each.details, "decision_at": seals.as_text(decision.at)}
        for each, decision in zip(judged, decisions, strict=True)
    ]
    moved = _move_all([*zip(judged, details, strict=True)])
    return [
        Recorded(_moved(each, decision, *moved[each.row.pk]), decision)
        for each, decision in zip(judged, decisions, strict=True)
    ]


def _move_all(
    wanted: Sequence[tuple[_Judged, Mapping[str, Any]]],
) -> dict[UUID, tuple[Transaction, str]]:
    """Each row as it is then, and the hash of its event. Raises ``NotPossible``."""
    alike: dict[Move[State], list[OneMove]] = {}
    moved = {}
    for judged, details in wanted:
        vote = judged.vote
        if judged.move in _COLUMNS_OF_APPROVALS and source_of(vote.reason) is None:
            approval = OneMove(judged.row.pk, vote.by, vote.via, vote.reason, details)
            alike.setdefault(judged.move, []).append(approval)
        else:
            moved[judged.row.pk] = _advance(judged, details)
    for move, approvals in alike.items():
        for row, links in advance_all_at_once(_approval(move), approvals).values():
            if links and links[-1].at <= row.expires_at:
                moved[row.pk] = row, links[-1].hash
    if len(moved) < len(wanted):
        raise NotPossible()
    return moved


def _moved(judged: _Judged, decision: Decision, row: Transaction, event_hash: str) -> Transaction:
    """The row once the rest is done that its move causes."""
    vote = judged.vote
    if vote.by.is_agent and vote.verdict != Verdict.PASS_ON:
        percent = judged.details["review_percent"]
        reviews.put_in_sample(decision, row.tenant, percent, event_hash)
    return _hand_over(row) if judged.move == states.APPROVE and is_for_agent(row) else row


# The columns that an approval writes besides its state, and those of the worker.
_COLUMNS_OF_APPROVALS: dict[Move[State], tuple[dict[str, Any], WorkColumns]] = {
    states.APPROVE: ({"decided_at": Now()}, FRESH),
    states.RECORD_APPROVAL: ({}, WorkColumns()),
}


@cache
def _approval(move: Move[State]) -> CompiledMove:
    columns, work = _COLUMNS_OF_APPROVALS[move]
    in_time = Transaction.objects.filter(pk=of_each("id"), expires_at__gt=Now())
    return compile_move(in_time, move, work=work, **columns)


def _advance(judged: _Judged, details: Mapping[str, Any]) -> tuple[Transaction, str]:
    row, vote = judged.row, judged.vote
    columns, work = _COLUMNS_OF_APPROVALS.get(judged.move, ({}, None))
    if judged.move == states.REJECT:
        ending = {"ending": Ending.REJECTED, "ending_reason": vote.reason}
        columns, work = {**ending, "decided_at": Now()}, FRESH
    moved = advance(
        row.pk,
        judged.move,
        by=vote.by,
        via=vote.via,
        reason=vote.reason,
        not_after=row.expires_at,
        details=details,
        work=work,
        **columns,
    )
    return moved, sign_offs.links_of(row.pk)[-1].hash


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


def _of_agent(row: Transaction, vote: _Vote, agent: Agent | None) -> dict[str, Any]:
    """Members the event and the row of a decision have besides: of agents, keeper and policy."""
    if not vote.by.is_agent:
        return {}
    members: dict[str, Any] = {"kept_by": "" if agent is None else agent.kept_by}
    if vote.policy is not None:
        members["policy"] = sealed_citation(row.tenant, vote.policy)
    return members


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
        raise NotPossible()
    if vote.verdict == Verdict.APPROVE and row.tool_version is not None:
        _check_is_not_held(row)


def _check_is_not_held(row: Transaction) -> None:
    """Raises ``ToolHeld``: nobody signs off what may be something else by now."""
    if why := why_tool_held(row.tenant, row.tool):
        text = Sentence("{tool} is held. {why}", tool=row.tool, why=Sentence(why))
        raise ToolHeld(text, snapshot=row)
