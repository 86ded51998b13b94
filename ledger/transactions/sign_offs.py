"""Checks a transaction's row against its sealed events. Reads only.

The application's database role can update a row, but not a sealed event. So these rules start
from the events, and trust a column only where an event sealed it. Workers run them before each
call of a tool; ``verify_ledger`` runs them over the whole audit log. Each fault is a sentence
that names the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from uuid import UUID

from ledger import seals, states
from ledger.contracts import ConsequenceLevel, RiskLevel
from ledger.events import content_faults, erasure_in, former_digests, order_faults, reason_faults
from ledger.models import Event, Transaction, Verdict
from ledger.principals import Principal, Surface
from ledger.seals import Link
from ledger.sign_off import rules
from ledger.sign_off.grants import may_be_granted
from ledger.sign_off.rules import (
    Base,
    Facts,
    Judgement,
    facts_of,
    terms_from,
)
from ledger.states import Move, Outcome, State
from ledger.transactions import deadlines, votes

Map = Mapping[str, Move[Any]]
MOVES: Map = states.BY_KIND
# The only moves that a proposer may make with its own transaction.
OF_THE_PROPOSER = frozenset(
    {
        states.PREPARE.kind,
        states.REFUSE.kind,
        states.ABANDON.kind,
        states.ESCALATE.kind,
        states.CANCEL.kind,
        states.ISSUE_PERMIT.kind,
    }
)
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
    }
)
CLAIMED = states.CLAIM.kind
# Each needs enough approvals before it.
NEEDS_SIGN_OFF = frozenset({states.APPROVE.kind, states.HAND_OVER.kind, CLAIMED})
# Outcomes recorded without a move out of COMMITTING; only possible after a claim.
AFTER_A_CLAIM = frozenset({states.KEEP_RECEIPT.kind, states.LATE_RECEIPT.kind})
# The outcome columns that a tool receives when it compensates a call.
COMPENSATION_INPUT = ("receipt", "result")
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


def links_of(subject: UUID) -> list[Link]:
    return links_of_each([subject])[subject]


def links_of_each(subjects: Collection[UUID]) -> dict[UUID, list[Link]]:
    """Their chains, each from its first event on."""
    rows = Event.objects.filter(subject__in=subjects).order_by("subject", "seq")
    chains: dict[UUID, list[Link]] = {subject: [] for subject in subjects}
    for values in rows.values_list(*Link._fields):
        link = Link(*values)
        chains[link.subject].append(link)
    return chains


def why_not_to_act(row: Transaction, links: Sequence[Link] | None = None) -> str:
    """Why a worker must not act on this row; empty if it may.

    The row must be as prepared, its state, receipt and result as its events sealed them, and its
    history one that the contract allows. ``links`` are its events, where they have been read.
    """
    if links is None:
        links = links_of(row.pk)
    if (
        not links
        or not row.is_untouched
        or links[0].says.get("row_digest") != _row_digest(row, links)
    ):
        return "The transaction was changed after it was signed off."
    for fault in (
        *chain_faults(links, MOVES),
        *sign_off_faults(row, links),
        *terms_faults(row, rules.judged_by),
        *charge_faults(row, links, rules.judged_by),
    ):
        return f"Its sealed history does not allow it: {fault}"
    if links[-1].to_state != row.state:
        return f"Its sealed history does not allow it: no event made it {row.state}."
    return next(outcome_faults(row, links, COMPENSATION_INPUT), "")


# --- one chain ------------------------------------------------------------------------------

ACCOUNT = "account"  # a person has an account of no tenant, and roles in one or several


def chain_faults(links: Sequence[Link], moves: Map, noun: str = "transaction") -> Iterator[str]:
    """Check the positions, hashes and moves of one chain, from its first event on."""
    seq, previous, state = 1, "", ""
    for link in links:
        if link.seq != seq:
            yield f"event {seq} of {noun} {link.subject} is missing."
        elif (link.previous_hash, link.from_state) != (previous, state):
            yield f"{_name_of(link, noun)} does not follow the event before it."
        if link.hash != seals.hash_of(link):
            yield f"{_name_of(link, noun)} was changed."
        if link.tenant != links[0].tenant and noun != ACCOUNT:
            yield f"{_name_of(link, noun)} belongs to another tenant than the event before it."
        for fault in _move_faults(link, moves):
            yield f"{_name_of(link, noun)}: {fault}"
        seq, previous, state = link.seq + 1, link.hash, link.to_state
    for link, fault in reason_faults(links):
        yield f"{_name_of(link, noun)}: {fault}"


def _name_of(link: Link, noun: str = "transaction") -> str:
    return f"event {link.id} of {noun} {link.subject}"


def _move_faults(link: Link, moves: Map) -> Iterator[str]:
    arrow = moves.get(link.kind)
    if arrow is None:
        yield f"{link.kind!r:.40} is no move."
        return
    starts_well = link.from_state in arrow.sources if arrow.sources else link.seq == 1
    if not starts_well:
        yield f"{link.kind} does not lead out of {link.from_state or 'nothing'!r}."
    if link.to_state != (link.from_state if arrow.target is None else arrow.target):
        yield f"{link.kind} does not lead to {link.to_state!r:.40}."


# --- one transaction ------------------------------------------------------------------------


def sign_off_faults(row: Any, links: Sequence[Link]) -> Iterator[str]:
    """Check that each decider was allowed to decide, and that enough did before any claim."""
    first = links[0].says
    valid: list[Link] = []  # decisions that count
    deciders: set[str] = set()
    for n, link in enumerate(links):
        faults = [*_actor_faults(link, links[0].principal, first)]
        if link.kind == votes.WITHDRAWAL:
            vote = votes.standing_approval(links[:n], link.principal)
            faults += [*votes.withdrawal_faults(link, vote, links[:n])]
            valid = [each for each in valid if each is not vote]
            deciders.discard(link.principal)
        # By the last one, which signed it off; an earlier one can be withdrawn until it begins.
        if link.kind == CLAIMED and any(votes.may_be_undone_at(link.at, v) for v in valid[-1:]):
            faults.append("carried out while its approval could still be withdrawn.")
        terms = votes.asked_by(links[: n + 1])
        if link.kind in votes.DECISIONS:
            required = votes.required_approver(terms.required_approver, links[:n])
            faults += votes.terms_of_vote_faults(link, terms)
            decision_faults = [*_decision_faults(link, row, first, required, deciders)]
            if deadlines.is_late(row, links, n):
                decision_faults.append("the decision came after the time was up.")
            faults += decision_faults
            deciders.add(link.principal)
            if not decision_faults:
                valid.append(link)
        if link.kind in AFTER_A_CLAIM and not any(before.kind == CLAIMED for before in links[:n]):
            faults.append(f"{link.kind}, and nothing was ever carried out.")
        if link.kind in NEEDS_SIGN_OFF and not votes.is_enough(valid, terms, links):
            faults.append("there are not enough approvals of what would be carried out.")
        yield from (f"{_name_of(link)}: {fault}" for fault in faults)
    yield from _renewal_faults(links)
    yield from _settlement_faults(row, links)
    yield from deadlines.deadline_faults(row, links)


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
                    f"{_name_of(link)}: {link.kind} by "
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


def _actor_faults(link: Link, proposer: str, first: Mapping[str, Any]) -> Iterator[str]:
    if link.principal == proposer and link.kind not in OF_THE_PROPOSER:
        yield f"{link.kind} by the proposer itself."
    keepers = link.says.get(seals.PROPOSER_KEPT_BY, [])
    if link.kind not in votes.DECISIONS and votes.is_of_a_keeper(link.principal, keepers, first):
        yield f"{link.kind} by who keeps the agent that proposed it."
    cancels_for = link.says.get("in_place_of", link.principal)
    if link.kind == states.CANCEL.kind and cancels_for != proposer:
        yield "canceled by somebody else than the proposer."
    if link.kind in OF_THE_SYSTEM and not Principal.parse(link.principal).is_system:
        yield f"{link.kind} is not for {link.principal}."


def _decision_faults(
    link: Link, row: Any, first: Mapping[str, Any], required: str, deciders: set[str]
) -> Iterator[str]:
    says = link.says
    if says.get("intent_digest") != first.get("intent_digest"):
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
    if is_own and votes.DECISIONS[link.kind] != Verdict.REJECT:
        yield f"the decision of {link.principal} is of who keeps the agent that proposed it."
    if link.via == Surface.GRANT and not may_be_granted(row.risk_level, row.consequence_level):
        yield f"a grant cannot sign for {link.principal} what nobody signs unseen."
    is_approval = votes.DECISIONS[link.kind] == Verdict.APPROVE
    if is_approval and lacks_policy(link.principal, says, first):
        yield f"the approval of {link.principal} does not cite the policy of the contract."


# As ``rules.judged_by``: the judgement of facts by the rules of a tenant and number.
Judge = Callable[[str, int, Facts, Base], Judgement]


def terms_faults(row: Any, judge: Judge) -> Iterator[str]:
    """Check that the terms are what the rules made of the sealed facts, and the columns theirs."""
    if row.terms is None:
        return
    try:
        terms, number = terms_from(row.terms), int(row.terms["set"])
        base = Base(terms_from(row.terms["contract"]), terms_from(row.terms["floor"]))
    except (KeyError, TypeError, ValueError):
        yield f"transaction {row.id}: its terms cannot be read."
        return
    if (row.required_approver, row.quorum) != (terms.required_approver, terms.quorum):
        yield f"transaction {row.id}: its approvers are not those of its terms."
    if row.content_erased_at is None and row.state != State.REFUSED:
        judgement = judge(row.tenant, number, facts_of(row), base)
        if list(judgement.matched) != row.terms.get("rules") or not terms.covers(judgement.terms):
            yield f"transaction {row.id}: its terms are not what rules {number} make of it."


def charge_faults(row: Any, links: Sequence[Link], judge: Judge) -> Iterator[str]:
    """Check that the first terms took all of the budgets by which they are so loose, once."""
    first = votes.sealed_terms(links[:1])
    taken = (first or {}).get("charges", [])
    later = [votes.sealed_terms([link]) for link in links[1:]]
    if any(terms.get("charges", []) != taken for terms in later if terms is not None):
        yield f"transaction {row.id}: later terms have other charges than the first ones."
    if first is None or row.content_erased_at is not None or row.state == State.REFUSED:
        return
    facts, is_charged = facts_of(row), False
    with suppress(KeyError, TypeError, ValueError):
        base = Base(terms_from(first["contract"]), terms_from(first["floor"]))
        judgement = judge(row.tenant, int(first["set"]), facts, base)
        is_charged = rules.is_charged(judgement, terms_from(first), taken, facts, links[0].at)
    if not is_charged:
        yield f"transaction {row.id}: its charges are not those of the rules that let it pass."


def _renewal_faults(links: Sequence[Link]) -> Iterator[str]:
    """Check that no later terms are looser than those before, nor of another contract."""
    for number, link in enumerate(links[1:], 1):
        new = votes.sealed_terms([link])
        if new is not None and not _are_at_least(new, links[:number]):
            yield f"{_name_of(link)}: it asks for less than before."


def _are_at_least(new: Mapping[str, Any], before: Sequence[Link]) -> bool:
    asked = votes.asked_by(before)
    contract = {"contract": asked.as_json(), "floor": asked.as_json()}
    sealed = votes.sealed_terms(before) or contract
    is_same = all(new.get(part) == sealed.get(part) for part in contract)
    return is_same and terms_from(new).covers(asked)


def row_faults(row: Any, links: Sequence[Link]) -> Iterator[str]:
    """Check every column of a transaction's row against what its events sealed."""
    name = f"transaction {row.id}"
    first, last = links[0], links[-1]
    says = first.says
    erasure = erasure_in(links)
    former = former_digests(erasure) if erasure is not None else {}
    if row.state != last.to_state:
        yield f"{name} is {row.state}, but its last event ({last.id}) left it {last.to_state}."
    if says.get("row_digest") != _row_digest(row, links, former):
        yield f"{name} is not what was prepared: its columns do not have the sealed digest."
    if erasure is not None:
        yield from content_faults(row, links, erasure)
    elif seals.digest_of(seals.intent_of(row)) != row.intent_digest:
        yield f"{name} does not have the intent digest that it was signed off by."
    derived = seals.OF_TERMS if row.terms is not None else frozenset()
    for column in {"intent_digest", "quorum", "required_approver", "input_hash"} - derived:
        if says.get(column) != getattr(row, column):
            yield f"{name}: {column} is not the sealed one."
    if row.keeper_may_sign != (says.get(seals.KEEPER_MAY_SIGN) is True):
        yield f"{name}: keeper_may_sign is not the sealed one."
    if row.required_policy != says.get(seals.REQUIRED_POLICY, ""):
        yield f"{name}: required_policy is not the sealed one."
    sealed_evidence = says.get(seals.EVIDENCE, []) if erasure is None else []
    if [each.get("sha256") for each in row.evidence or []] != sealed_evidence:
        yield f"{name}: evidence is not the sealed one."
    if (row.tenant, row.proposed_by) != (first.tenant, first.principal):
        yield f"{name}: tenant or proposer is not that of its first event."
    if any(link.transaction_id != row.id for link in links):
        yield f"{name}: one of its events names another transaction."
    if row.state == State.PREPARED and row.open_seats != votes.open_seats_after(
        links, votes.asked_by(links)
    ):
        yield f"{name}: open_seats is not what its votes left."
    yield from outcome_faults(row, links, seals.OUTCOME)
    for link, fault in order_faults(links, seals.as_text(row.retain_until)):
        yield f"{_name_of(link)}: {fault}"


def _row_digest(
    row: Any, links: Sequence[Link], former: Mapping[str, str] = MappingProxyType({})
) -> str:
    return seals.row_digest(row, former, links[0].says, deadlines.as_prepared(links))


def outcome_faults(row: Any, links: Sequence[Link], columns: Iterable[str]) -> Iterator[str]:
    """Check that these columns have the values that the events sealed."""
    sealed = seals.sealed_outcome(link.says for link in links)
    for column, text in seals.outcome_of(row, columns).items():
        if sealed.get(column) != text:
            yield f"transaction {row.id}: {column} is not what its events sealed."
