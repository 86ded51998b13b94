"""Actors of a transaction: each might make its move, and enough had signed before any claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ledger import seals, states
from ledger.contracts import ConsequenceLevel, RiskLevel
from ledger.models import REFUSALS, Verdict
from ledger.principals import WORKER, Principal, Surface
from ledger.seals import Link
from ledger.sign_off import passkeys, revisions
from ledger.sign_off.grants import may_be_granted, signed_vote_faults
from ledger.sign_off.rules import Strength
from ledger.states import Outcome, State
from ledger.transactions import deadlines, votes
from ledger.transactions.sign_offs.advice import ADVISED, advice_faults
from ledger.transactions.sign_offs.chains import name_of
from ledger.transactions.sign_offs.terms import renewal_faults

# The only moves that a proposer may make with its own transaction.
OF_THE_PROPOSER = frozenset(
    {
        states.PREPARE.kind,
        states.REFUSE.kind,
        states.ABANDON.kind,
        states.ESCALATE.kind,
        states.CANCEL.kind,
        states.ISSUE_PERMIT.kind,
        states.ANSWER.kind,
    }
)
OF_PEOPLE = frozenset({states.ASK.kind, states.EXTEND.kind, states.NOTE.kind})
OF_THE_SYSTEM = frozenset(
    {
        states.HAND_OVER.kind,
        states.CLAIM.kind,
        states.EXPIRE.kind,
        states.RETRY.kind,
        states.LATE_RECEIPT.kind,
        states.RENEW_TERMS.kind,
        states.TIGHTEN_TERMS.kind,
        states.MOVE_DEADLINE.kind,
        states.CONFIRM_PLAN.kind,
        states.OUTDATE.kind,
    }
)
CLAIMED = states.CLAIM.kind
BEGINS = frozenset({CLAIMED, states.HAND_OVER.kind})
TOLERANCE = timedelta(minutes=1)  # database transactions overlap
# A plan that was made again and confirmed seals none of these: that is another revision.
REVISES = frozenset({"intent_digest", seals.EVIDENCE, "revision"})
# Each needs enough approvals before it.
NEEDS_SIGN_OFF = frozenset({states.APPROVE.kind, states.HAND_OVER.kind, CLAIMED})
# Outcomes recorded without a move out of COMMITTING; only possible after a claim.
AFTER_A_CLAIM = frozenset({states.KEEP_RECEIPT.kind, states.LATE_RECEIPT.kind})
# The outcomes that operators settle, and the kind of event that records each.
SETTLEMENT_KINDS: dict[str, str] = {
    Outcome.COMMITTED: states.COMMIT.kind,
    Outcome.NOTHING_HAPPENED: states.DISPROVE.kind,
    Outcome.KEEP_RECEIPT: states.KEEP_RECEIPT.kind,
    Outcome.NOT_OURS: states.LATE_RECEIPT_SETTLED.kind,
    Outcome.DEALT_WITH: states.LATE_RECEIPT_SETTLED.kind,
    Outcome.COMPENSATE: states.COMPENSATE.kind,
}
SETTLED = frozenset(SETTLEMENT_KINDS.values())
# The words of operators that are signed where people sign with a passkey.
WORDS = SETTLED | {states.SETTLEMENT_PROPOSED.kind}
# These are a worker's as well, which knows the outcome.
WORDS_OF_WORKERS = frozenset({states.COMMIT.kind, states.DISPROVE.kind})


def sign_off_faults(
    row: Any, links: Sequence[Link], keys_of: passkeys.KeysOf = passkeys.keys_of
) -> Iterator[str]:
    """Check that each decider was allowed to decide, and that enough did before any claim."""
    first = links[0].says
    valid: list[Link] = []  # decisions that count
    deciders: set[str] = set()
    for n, link in enumerate(links):
        faults = [*_actor_faults(link, links[0].principal, first, links[:n])]
        if link.kind == votes.WITHDRAWAL:
            vote = votes.standing_approval(links[:n], link.principal)
            faults += [*votes.withdrawal_faults(link, vote, links[:n])]
            valid = [each for each in valid if each is not vote]
            deciders.discard(link.principal)
        if is_word(link):
            faults += _word_faults(link, links[:n], keys_of)
        if link.kind == ADVISED:
            faults += advice_faults(link, links[:n])
        if link.kind == states.CONFIRM_PLAN.kind and link.says.keys() & REVISES:
            faults.append("it seals something else than what was signed off.")
        if link.kind == revisions.REVISED:
            faults += _revision_faults(link, links[:n])
            valid = [vote for vote in valid if votes.DECISIONS[vote.kind] != Verdict.APPROVE]
            deciders = {vote.principal for vote in valid}
        # By the last one, which signed it off; an earlier one can be withdrawn until it begins.
        if link.kind == CLAIMED and any(votes.may_be_undone_at(link.at, v) for v in valid[-1:]):
            faults.append("carried out while its approval could still be withdrawn.")
        if link.kind in BEGINS and any(v.at > link.at + TOLERANCE for v in valid):
            faults.append("carried out before the time of an approval.")
        terms = votes.asked_by(links[: n + 1])
        if link.kind in votes.DECISIONS:
            required = votes.required_approver(terms.required_approver, links[:n])
            faults += votes.terms_of_vote_faults(link, terms)
            is_live = revisions.number_in(links[:n]) == revisions.number_in(links)
            seen = row if is_live else None
            faults += _assertion_faults(link, links[:n], keys_of)
            if votes.is_signed_in_advance(link) and passkeys.ASSERTION not in link.says:
                faults += signed_vote_faults(link, seen)
            decision_faults = [*_decision_faults(link, seen, links[:n], required, deciders)]
            if (
                is_approval(link)
                and terms.quorum > 1
                and link.principal in revisions.makers_in(links[:n])
            ):
                decision_faults.append("the approval of who changed it, where two sign.")
            if deadlines.is_late(row, links, n):
                decision_faults.append("the decision came after the time was up.")
            faults += decision_faults
            deciders.add(link.principal)
            if not decision_faults:
                valid.append(link)
        if link.kind in AFTER_A_CLAIM and not any(before.kind == CLAIMED for before in links[:n]):
            faults.append(f"{link.kind}, and nothing was ever carried out.")
        if link.kind in NEEDS_SIGN_OFF and not votes.is_enough(valid, terms, links[: n + 1]):
            faults.append("there are not enough approvals of what would be carried out.")
        yield from (f"{name_of(link)}: {fault}" for fault in faults)
    yield from renewal_faults(links)
    yield from _settlement_faults(row, links)
    yield from deadlines.deadline_faults(row, links)


def _assertion_faults(
    link: Link, before: Sequence[Link], keys_of: passkeys.KeysOf
) -> Iterator[str]:
    if passkeys.ASSERTION in link.says:
        keys = keys_of(link.principal, link.id)
        yield from votes.assertion_faults(link.says, link.at, before, keys)


def is_word(link: Link) -> bool:
    """True for the event of what only an operator says."""
    is_system = Principal.parse(link.principal).is_system
    return link.kind in WORDS and not (is_system and link.kind in WORDS_OF_WORKERS)


def _word_faults(link: Link, before: Sequence[Link], keys_of: passkeys.KeysOf) -> Iterator[str]:
    """Check that an operator signed what they settled, where people sign with a passkey."""
    says = link.says
    if passkeys.ASSERTION not in says:
        if votes.asked_by(before).strength == Strength.PASSKEY:
            yield f"{link.kind} by {link.principal}, not signed with a passkey."
        return
    if says.get("intent_digest") != revisions.sealed_last(before, "intent_digest"):
        yield "the settlement is of something else than what was prepared."
    verdict, sets = str(says.get("verdict")), says.get("sets", {})
    sets = sets if isinstance(sets, Mapping) else {}
    is_same = says.get("outcome", verdict) == verdict
    is_proposal = link.kind == states.SETTLEMENT_PROPOSED.kind
    if not is_same or not (is_proposal or SETTLEMENT_KINDS.get(verdict) == link.kind):
        yield "what was signed is another outcome."
    if sets.get("receipt", says.get("receipt", "")) != says.get("receipt", ""):
        yield "what was signed has another receipt."
    yield from _assertion_faults(link, before, keys_of)


def lacks_policy(principal: str, says: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    """True for an approval of an agent that does not cite the document that its contract names.

    ``says`` are the details of its event, ``first`` those of the first one.
    """
    required = first.get(seals.REQUIRED_POLICY, "")
    cited = (says.get("policy") or {}).get("sha256", "")
    return bool(required) and Principal.parse(principal).is_agent and cited != required


def is_grave(row: Any) -> bool:
    """True if settling it takes two operators whatever the amount: irreversible or critical."""
    cannot_be_undone = row.consequence_level == ConsequenceLevel.IRREVERSIBLE
    return bool(cannot_be_undone or row.risk_level == RiskLevel.CRITICAL)


# After these, a settlement that one operator proposed before no longer counts.
VOIDS_A_PROPOSAL = frozenset(
    {states.SETTLEMENT_DECLINED.kind, states.RETRY.kind, states.ORDER_RETRY.kind}
)


def _settlement_faults(row: Any, links: Sequence[Link]) -> Iterator[str]:
    """Check that what takes two operators was proposed by one and confirmed by another."""
    proposal: Link | None = None
    for link in links:
        if link.kind == states.SETTLEMENT_PROPOSED.kind:
            proposal = link
        elif link.kind in VOIDS_A_PROPOSAL:
            proposal = None
        elif link.kind in SETTLED and not Principal.parse(link.principal).is_system:
            by_two = is_grave(row) or seals.SETTLED_BY_TWO in links[0].says
            takes_two = by_two or "first_word_by" in link.says
            if takes_two and not _confirms(link, proposal):
                yield (
                    f"{name_of(link)}: {link.kind} by "
                    f"{link.principal} without the word of another operator before it."
                )
            proposal = None


def _confirms(link: Link, proposal: Link | None) -> bool:
    if proposal is None or proposal.principal == link.principal:
        return False
    first, second = proposal.says, link.says
    return (
        second.get("first_word_by") == proposal.principal
        and SETTLEMENT_KINDS.get(str(first.get("outcome"))) == link.kind
        and second.get("outcome", first.get("outcome")) == first.get("outcome")
        and second.get("receipt", first.get("receipt")) == first.get("receipt")
    )


def _actor_faults(
    link: Link, proposer: str, first: Mapping[str, Any], before: Sequence[Link]
) -> Iterator[str]:
    if link.principal == proposer and link.kind not in OF_THE_PROPOSER:
        yield f"{link.kind} by the proposer itself."
    keepers = link.says.get(seals.PROPOSER_KEPT_BY, [])
    if link.kind not in votes.DECISIONS and votes.is_of_a_keeper(link.principal, keepers, first):
        yield f"{link.kind} by who keeps the agent that proposed it."
    cancels_for = link.says.get("in_place_of", link.principal)
    if link.kind == states.CANCEL.kind and cancels_for != proposer:
        yield "canceled by somebody else than the proposer."
    if link.kind in OF_PEOPLE and not (
        Principal.parse(link.principal).is_user or _gives_time_anew(link, before)
    ):
        yield f"{link.kind} is not for {link.principal}."
    if link.kind == states.ANSWER.kind and link.principal != proposer:
        yield "answered by somebody else than the proposer."
    if link.kind in OF_THE_SYSTEM and not Principal.parse(link.principal).is_system:
        yield f"{link.kind} is not for {link.principal}."


def _gives_time_anew(link: Link, before: Sequence[Link]) -> bool:
    """True for the time that a worker gives to what it planned again."""
    is_extension = link.kind == states.EXTEND.kind and link.principal == str(WORKER)
    last = [(each.kind, each.principal) for each in before[-1:]]
    return is_extension and last == [(revisions.REVISED, str(WORKER))]


def is_approval(link: Link) -> bool:
    return votes.DECISIONS.get(link.kind) == Verdict.APPROVE


def _revision_faults(link: Link, before: Sequence[Link]) -> Iterator[str]:
    """Check who changed it, and that it goes on from the revision before it."""
    by = Principal.parse(link.principal)
    is_of_person = by.is_user and link.from_state == State.PREPARED
    if not is_of_person and not (
        link.principal == str(WORKER) and link.from_state == State.APPROVED
    ):
        yield f"revised by {link.principal}, out of {link.from_state}."
    if link.says.get("revision") != revisions.number_in(before) + 1:
        yield "it is not the next revision."
    if link.says.get("replaces") != revisions.sealed_last(before, "intent_digest"):
        yield "it replaces something else than what was there."


def _decision_faults(
    link: Link, row: Any | None, before: Sequence[Link], required: str, deciders: set[str]
) -> Iterator[str]:
    """``row`` only for a decision on the live revision: what an earlier one was like is proved
    with the grants."""
    says, first = link.says, (before or [link])[0].says
    if says.get("intent_digest") != revisions.sealed_last(before, "intent_digest"):
        yield "the decision is on something else than what was prepared."
    if says.get("verdict") != votes.DECISIONS[link.kind]:
        yield f"{link.kind} with the verdict {says.get('verdict')!r:.40}."
    if link.principal in deciders:
        yield f"a second decision of {link.principal}."
    may = votes.may_pass_on if link.kind == states.PASS_ON.kind else votes.may_sign_off
    if not may(link.principal, required):
        yield f"the contract does not accept a decision of {link.principal}."
    is_own = votes.is_of_a_keeper(
        votes.voter_of(link.principal, says), says.get(seals.PROPOSER_KEPT_BY, []), first
    )
    if is_own and votes.DECISIONS[link.kind] not in REFUSALS:
        yield f"the decision of {link.principal} is of who keeps the agent that proposed it."
    if (
        row is not None
        and link.via == Surface.GRANT
        and not may_be_granted(row.risk_level, row.consequence_level)
    ):
        yield f"a grant cannot sign for {link.principal} what nobody signs unseen."
    if is_approval(link) and lacks_policy(link.principal, says, first):
        yield f"the approval of {link.principal} does not cite the policy of the contract."
