"""One decision of one principal on one intent digest, and the refusals of those who came late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple, Unpack
from uuid import UUID

from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.errors import (
    EvidenceChanged,
    InvalidRequest,
    LedgerError,
    NotFound,
    NotPossible,
    Paused,
    Sentence,
    source_of,
)
from ledger.events.brakes import refuse_to_begin
from ledger.foundation.postgres import of_each
from ledger.models import REFUSALS, Decision, Ending, Transaction, Verdict
from ledger.principals import POLICY, WORKER, Principal, Surface
from ledger.seals import Link
from ledger.sign_off import passkeys
from ledger.sign_off.rules import are_filled, open_seats, terms_from
from ledger.states import Move, Reasons, State
from ledger.tools import is_for_agent
from ledger.transactions import reviews, sign_offs, votes
from ledger.transactions.cases import Case, look_at, look_at_one
from ledger.transactions.eligibility import (
    REASON_IS_MISSING,
    Ballot,
    Vote,
    check_assertion,
    check_fills_a_seat,
    check_fits_terms,
    check_is_no_keeper,
    check_may_decide,
    check_policy,
)
from ledger.transactions.late_decisions import same_again_or_refuse
from ledger.transactions.renewal import renew_terms
from ledger.transactions.transitions import (
    FRESH,
    CompiledMove,
    OneMove,
    WorkColumns,
    advance,
    advance_all_at_once,
    check_reason,
    compile_move,
)


def approve_by_policy(
    transaction_id: UUID, digest: str, terms: Mapping[str, Any] | None
) -> Transaction:
    """Sign off a transaction that nobody has to approve, with POLICY as the decider.

    ``terms`` are those of its row: its contract asks for nobody, or the tenant's rules let it pass.
    """
    return decide(
        transaction_id,
        Verdict.APPROVE,
        digest=digest,
        by=POLICY,
        via=Surface.SYSTEM,
        reason=_why_nobody(terms),
    )


def _why_nobody(terms: Mapping[str, Any] | None) -> Sentence:
    if not terms or not terms["contract"].get("seats"):
        return Reasons.NO_APPROVER()
    return Reasons.BY_RULES(rules=", ".join(map(str, terms["rules"])), number=terms["set"])


def decide(transaction_id: UUID, verdict: Verdict, **wanted: Unpack[Vote]) -> Transaction:
    """Record one decision; the one that completes the quorum, or rejects, moves the transaction.

    Deciding the same again returns the present row. Raises ``AlreadyDecided, DigestMismatch,
    Expired, OwnTransaction, NotAllowed, NotFound, InvalidRequest``.
    """
    vote = Ballot(verdict, **wanted)
    if verdict in REASON_IS_MISSING and not vote.reason.strip():
        raise InvalidRequest(REASON_IS_MISSING[verdict])
    check_reason(vote.reason)
    try:
        with atomic():
            case = look_at_one(transaction_id, vote.by)
            if case is not None and verdict == Verdict.APPROVE:
                case = _ready_for(case, vote)
            [recorded] = _record([_judge(case, vote)])
            return recorded.row
    except (Paused, EvidenceChanged):
        raise
    except NotPossible as refusal:
        # Read only now: what the refused attempt had written was rolled back.
        snapshot = Transaction.objects.filter(pk=transaction_id).first()
        if snapshot is None:
            raise NotFound() from refusal
        return same_again_or_refuse(snapshot, verdict, by=vote.by, digest=vote.digest)


def _ready_for(case: Case, vote: Ballot) -> Case | None:
    """The case by the rules that are active, without the voter's own approval that is idle."""
    pk, ready = case.row.pk, case
    if not case.has_active_rules:
        renew_terms(pk)
        ready = look_at({pk: vote.by})[pk]
    own = votes.standing_approval(ready.links, str(vote.by)) if ready.row.terms else None
    if own is None or not votes.may_be_replaced(own, ready.links):
        return ready
    withdraw(ready.links, own, by=vote.by, via=vote.via)
    return look_at({pk: vote.by}).get(pk)


def withdraw(
    links: Sequence[Link],
    approval: Link,
    *,
    by: Principal,
    via: Surface,
    not_after: datetime | None = None,
) -> Transaction:
    """Take an approval back. Raises ``NotPossible`` if somebody was faster."""
    others = [link for link in links if link is not approval]
    row = advance(
        approval.subject,
        states.WITHDRAW_APPROVAL,
        by=by,
        via=via,
        not_after=not_after,
        details={"decision_at": approval.says["decision_at"]},
        work=FRESH,
        decided_at=None,
        settlement=None,
        open_seats=votes.open_seats_after(others, votes.asked_by(links)),
    )
    Decision.objects.filter(transaction=row, principal=str(by)).update(is_withdrawn=True)
    return row


def approve_all(votes: Mapping[UUID, Vote]) -> list[Recorded]:
    """Approve many transactions in a few statements, each of the voter's own tenant.

    Waits for nobody's lock. Those that it does not approve, ``decide`` does, or says why not.
    """
    wanted = {pk: Ballot(Verdict.APPROVE, **vote) for pk, vote in votes.items()}
    try:
        with atomic():
            cases = look_at({pk: vote.by for pk, vote in wanted.items()}, skip_locked=True)
            judged = [*_possible(cases, wanted)]
            return _record(judged)
    except NotPossible:  # one was too late in the end, so nothing was written
        return []


def _possible(cases: Mapping[UUID, Case], votes: Mapping[UUID, Ballot]) -> Iterator[_Judged]:
    for pk, case in cases.items():
        if case.row.tenant != votes[pk].by.tenant or not case.has_active_rules:
            continue
        if terms_from(case.row.terms or {}).widen:  # time may have to be counted first
            continue
        with suppress(LedgerError):
            check_reason(votes[pk].reason)
            yield _judge(case, votes[pk])


class Recorded(NamedTuple):
    """The transaction as it is then, and the decision."""

    row: Transaction
    decision: Decision


@dataclass(frozen=True, slots=True)
class _Judged:
    """A vote that counts: the move that it makes, and what its event and its row say of it."""

    row: Transaction
    vote: Ballot
    move: Move[State]
    of_agent: Mapping[str, Any]  # who keeps it, and its policy: in the row of the decision, too
    details: Mapping[str, Any]
    open_seats: list[str] | None  # after it


def _judge(case: Case | None, vote: Ballot) -> _Judged:
    """Decide by ``case`` whether the vote counts, and what it moves. Raises what ``decide`` raises.

    Queries only for a policy that is cited, and whether it is stopped.
    """
    if case is None or not _is_open_for(case.row, vote):
        raise NotPossible()
    row, first = case.row, case.links[0]
    earlier = votes.standing_decisions(case.links)
    if any(link.principal == str(vote.by) for link in earlier):
        raise NotPossible()
    check_may_decide(row, vote, earlier)
    of_agent = case.seals_of_agent(vote.by, vote.policy)
    check_policy(vote, of_agent, first)
    if vote.verdict not in REFUSALS:  # those fill no seat, and the keeper may stop its agent
        check_is_no_keeper(vote, of_agent, case.keepers, first)
    details = {**of_agent, "intent_digest": vote.digest, "verdict": str(vote.verdict)}
    is_enough, seats_left = False, None
    if vote.verdict == Verdict.APPROVE:
        terms = votes.asked_by(case.links)
        check_fits_terms(row, vote, terms)
        details |= {**case.seals_of_approval(typed=vote.typed), **vote.in_advance}
        if vote.assertion is not None:
            details[passkeys.ASSERTION] = passkeys.checked(vote.assertion)
            check_assertion(case.links, case.at, vote.by, details)
        if vote.by == POLICY:
            is_enough = True
        else:
            voters = check_fills_a_seat(row, case.at, case.links, vote, details)
            is_enough, seats_left = are_filled(terms, voters), open_seats(terms, voters)
    if case.keepers:
        details[seals.PROPOSER_KEPT_BY] = sorted(case.keepers)
    if vote.seconds_shown is not None:
        details["seconds_shown"] = round(vote.seconds_shown, 1)
    if vote.together > 1:
        details["together"] = vote.together
    if vote.verdict == Verdict.APPROVE and (seconds := case.undo_seconds(vote.undo_seconds)):
        details["undo_seconds"] = seconds
    if vote.by.is_agent:
        details["review_percent"] = 100 if case.agent is None else case.agent.review_percent
    move = _move_of(vote, is_enough=is_enough)
    return _Judged(row, vote, move, of_agent, details, seats_left)


def _is_open_for(row: Transaction, vote: Ballot) -> bool:
    return row.intent_digest == vote.digest and row.proposed_by != str(vote.by)


def _move_of(vote: Ballot, *, is_enough: bool) -> Move[State]:
    if vote.verdict == Verdict.PASS_ON:
        return states.PASS_ON
    if vote.verdict in REFUSALS:
        return states.REJECT if vote.verdict == Verdict.REJECT else states.SEND_BACK
    return states.APPROVE if is_enough else states.RECORD_APPROVAL


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
            grant_id=each.vote.in_advance.get("grant"),
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
        is_usual = source_of(vote.reason) is None and "undo_seconds" not in details
        is_usual = is_usual and judged.open_seats is None
        if judged.move in _COLUMNS_OF_APPROVALS and is_usual:
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
        reviews.put_in_sample(decision, row.tenant, judged.details["review_percent"], event_hash)
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
    if vote.verdict in REFUSALS:
        is_final = vote.verdict == Verdict.REJECT
        kind = Ending.REJECTED if is_final else Ending.SENT_BACK
        ending = {"ending": kind, "ending_reason": vote.reason}
        columns, work = {**ending, "decided_at": Now()}, FRESH
    elif judged.move == states.RECORD_APPROVAL:
        columns = {"open_seats": judged.open_seats}
    elif judged.move == states.APPROVE and (seconds := details.get("undo_seconds")):
        work = replace(FRESH, next_attempt_at=Now() + timedelta(seconds=seconds))
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


def _hand_over(row: Transaction) -> Transaction:
    """End what the agent carries out itself. What was changed since is left to a worker, which
    finds that out before anything else."""
    if sign_offs.why_not_to_begin(row):
        return row
    refuse_to_begin(row)
    return advance(
        row.pk,
        states.HAND_OVER,
        by=WORKER,
        via=Surface.SYSTEM,
        reason="The agent carries it out itself; no receipt comes back.",
        ended_at=Now(),
    )
