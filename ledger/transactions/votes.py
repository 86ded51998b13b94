"""The decisions in the chain of a transaction: which of them count, and whose votes they are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ledger import seals, states
from ledger.contracts import RequiredApprover
from ledger.models import Verdict
from ledger.principals import POLICY, Principal, PrincipalKind, Surface
from ledger.seals import Link
from ledger.sign_off import passkeys
from ledger.sign_off.grants import SIGNED
from ledger.sign_off.revisions import REVISED, makers_in, number_in
from ledger.sign_off.rules import (
    APPROVERS,
    Strength,
    Terms,
    are_filled,
    base_of,
    filled_seats,
    open_seats,
    terms_from,
)
from ledger.states import State
from ledger.transactions.deadlines import put_off_s

DECISIONS: dict[str, Verdict] = {
    states.RECORD_APPROVAL.kind: Verdict.APPROVE,
    states.APPROVE.kind: Verdict.APPROVE,
    states.REJECT.kind: Verdict.REJECT,
    states.SEND_BACK.kind: Verdict.SEND_BACK,
    states.PASS_ON.kind: Verdict.PASS_ON,
}
# The voter that all agents together are whose keeper nobody has named.
UNKNOWN_KEEPER = "agents without a keeper"
AT_THE_DESK = frozenset({Surface.WEB, Surface.GRANT})
WITHDRAWAL = states.WITHDRAW_APPROVAL.kind
MOST_UNDO_S = 60


def standing_decisions(links: Sequence[Link]) -> list[Link]:
    """The events of the decisions that count: without approvals that were withdrawn since, or that
    were of an earlier revision."""
    standing: list[Link] = []
    for link in links:
        if link.kind in DECISIONS:
            standing.append(link)
        elif link.kind == WITHDRAWAL:
            standing = [vote for vote in standing if vote.principal != link.principal]
        elif link.kind == REVISED:
            standing = [vote for vote in standing if DECISIONS[vote.kind] != Verdict.APPROVE]
    return standing


def standing_approval(links: Sequence[Link], principal: str) -> Link | None:
    """The event of this principal's approval, unless it was withdrawn."""
    votes = (link for link in standing_decisions(links) if link.principal == principal)
    return next((vote for vote in votes if DECISIONS[vote.kind] == Verdict.APPROVE), None)


def undo_until(vote: Link) -> datetime | None:
    """The end of the time in which an approval can be withdrawn; ``None`` where it cannot be."""
    seconds = vote.says.get("undo_seconds")
    if type(seconds) is not int or not 0 < seconds <= MOST_UNDO_S:
        return None
    return vote.at + timedelta(seconds=seconds)


def withdrawal_faults(link: Link, vote: Link | None, before: Sequence[Link]) -> Iterator[str]:
    """Check that ``link`` withdraws ``vote``, its maker's approval, in time or as it was idle."""
    until = None if vote is None else undo_until(vote)
    if vote is None or vote.says.get("decision_at") != link.says.get("decision_at"):
        yield f"{link.principal} withdraws an approval that it had not given."
    elif (until is None or link.at > until) and not may_be_replaced(vote, before):
        yield "an approval that could not be withdrawn any more."


def may_be_undone_at(at: datetime, vote: Link) -> bool:
    """True if no worker may begin yet, counted from when the row was decided."""
    if vote.kind != states.APPROVE.kind or undo_until(vote) is None:
        return False
    decided_at = str(seals.sealed_outcome([vote.says])["decided_at"])
    until = int(decided_at) + vote.says["undo_seconds"] * 10**6 if decided_at.isdecimal() else 0
    return not until or int(seals.as_text(at)) < until


def approvers_in(links: Sequence[Link]) -> set[str]:
    """The different voters that approved; once it was passed on, only people count.

    Agents that one person keeps are one voter, and the same voter as that person.
    """
    approvals = [link for link in links if DECISIONS.get(link.kind) == Verdict.APPROVE]
    if any(link.kind == states.PASS_ON.kind for link in links):
        approvals = [link for link in approvals if Principal.parse(link.principal).is_user]
    return {voter_of(link.principal, link.says) for link in approvals}


def seats_open_to(
    says: Mapping[str, Any], at: datetime, links: Sequence[Link], terms: Terms
) -> frozenset[str]:
    """The groups whose seats an approval at this time may fill, whose event says this.

    Those of its voter, and the groups whose terms let others sign that long after the first event.
    Time in which a brake stopped it does not count. Break-glass stands for every group.
    """
    if says.get("break_glass") is True:
        return frozenset(terms.groups)
    groups: Collection[str] = says.get("groups", ())
    waited_s = (at - links[0].at).total_seconds() - put_off_s(links, at)
    return frozenset(groups) | terms.opened_to(groups, waited_s)


def voter_of(principal: str, says: Mapping[str, Any]) -> str:
    """The owner of a vote. Decisions of agents from before keepers were sealed count for each."""
    if Principal.parse(principal).is_agent and "kept_by" in says:
        return str(says["kept_by"]) or UNKNOWN_KEEPER
    return principal


def is_of_a_keeper(voter: str, keepers: Collection[str], first: Mapping[str, Any]) -> bool:
    """True if the vote may be the proposer's own: of who keeps that agent, or of a supervisor
    whose keeper nobody has named, where the contract does not allow it.

    ``first`` are the details of the first event.
    """
    is_own = voter in keepers or (voter == UNKNOWN_KEEPER and bool(keepers))
    return is_own and first.get(seals.KEEPER_MAY_SIGN) is not True


# --- what the terms ask for --------------------------------------------------------------------

# The kinds of principals that a contract accepts. Of the system, only POLICY signs off.
KINDS: dict[str, frozenset[str]] = {
    str(RequiredApprover.NONE): frozenset({PrincipalKind.SYSTEM, PrincipalKind.USER}),
    str(RequiredApprover.SUPERVISOR): frozenset({PrincipalKind.AGENT, PrincipalKind.USER}),
    str(RequiredApprover.HUMAN): frozenset({PrincipalKind.USER}),
}
# Of a history that does not say what its contract asks for.
IMPOSSIBLE = Terms(seats={APPROVERS: 10**6})


def required_approver(in_contract: str, before: Sequence[Link]) -> str:
    """The one who has to decide after these events: a person, once an agent has passed it on."""
    if any(link.kind == states.PASS_ON.kind for link in before):
        return str(RequiredApprover.HUMAN)
    return in_contract


def may_sign_off(principal: str, required_approver: str) -> bool:
    """True if a contract accepts a decision of this kind of principal."""
    decider = Principal.parse(principal)
    if decider.is_system and principal != str(POLICY):
        return False
    return decider.kind in KINDS.get(required_approver, frozenset())


def may_pass_on(principal: str, required_approver: str) -> bool:
    """True if this principal may leave it to people: an agent that might decide itself."""
    is_agent = Principal.parse(principal).is_agent
    return is_agent and may_sign_off(principal, required_approver)


def sealed_terms(links: Sequence[Link]) -> dict[str, Any] | None:
    """The terms that the last of these events set which did, in full."""
    for link in reversed(links):
        sets = link.says.get("sets", {})
        if isinstance(sets, dict) and sets.get("terms", "null") != "null":
            terms: dict[str, Any] = json.loads(sets["terms"])
            return terms
    return None


def asked_by(links: Sequence[Link]) -> Terms:
    """The terms after these events: those that rules made last, or else the contract's."""
    sealed = sealed_terms(links)
    if sealed is not None:
        return terms_from(sealed)
    first = links[0].says
    quorum = first.get("quorum")
    if not isinstance(quorum, int) or first.get("required_approver") not in KINDS:
        return IMPOSSIBLE
    return base_of(str(first["required_approver"]), quorum, desk_only=False, floor="").own


def is_enough(links: Sequence[Link], terms: Terms, history: Sequence[Link] | None = None) -> bool:
    """True if the approvals among these events fill the seats of these terms.

    ``history`` has all events, where ``links`` are only some.

    POLICY alone signs where there are none. Approvals that do not fit the terms do not count.
    """
    if terms.is_denied:
        return False
    voters = seats_by_voter(links, terms, history or links)
    if not terms.seats and str(POLICY) in voters:
        return True
    return are_filled(terms, [*voters.values()])


def seats_by_voter(
    links: Sequence[Link], terms: Terms, history: Sequence[Link]
) -> dict[str, frozenset[str]]:
    """The voters whose approvals count, each with the groups whose seats it may fill.

    Who changed it is none where two have to sign.
    """
    approvals = approvals_that_fit(links, terms)
    approvers = approvers_in(approvals)
    seats = {
        voter_of(link.principal, link.says): seats_open_to(link.says, link.at, history, terms)
        for link in approvals
    }
    own = makers_in(history) if terms.quorum > 1 else frozenset()
    return {voter: seats[voter] for voter in sorted(approvers - own)}


def may_be_replaced(vote: Link, links: Sequence[Link]) -> bool:
    """True while it waits, and the approval fills no seat of what has been asked for since."""
    if links[-1].to_state != State.PREPARED:
        return False
    terms = asked_by(links)
    others = [link for link in links if link is not vote]
    all_voters, other_voters = (
        [*seats_by_voter(each, terms, links).values()] for each in (links, others)
    )
    return filled_seats(terms, all_voters) == filled_seats(terms, other_voters)


def open_seats_after(links: Sequence[Link], terms: Terms) -> list[str] | None:
    return open_seats(terms, [*seats_by_voter(links, terms, links).values()])


def approvals_that_fit(links: Sequence[Link], terms: Terms) -> list[Link]:
    """The approvals that count, of whom these terms accept, given as they ask."""
    required = required_approver(terms.required_approver, links)
    return [
        link
        for link in standing_decisions(links)
        if DECISIONS[link.kind] == Verdict.APPROVE
        and may_sign_off(link.principal, required)
        and not [*terms_of_vote_faults(link, terms)]
    ]


def terms_of_vote_faults(link: Link, terms: Terms) -> Iterator[str]:
    if DECISIONS[link.kind] != Verdict.APPROVE or not terms.seats:
        return
    if terms.desk_only and link.via not in AT_THE_DESK:
        yield f"the approval of {link.principal} was not given at the desk."
    if terms.needs_note and link.reason_digest == seals.digest_of_text(""):
        yield f"the approval of {link.principal} has no note."
    if terms.one_by_one and link.says.get("together", 1) != 1:
        yield f"the approval of {link.principal} was given together with others."
    if passkeys.ASSERTION in link.says or is_signed_in_advance(link):
        return
    if terms.strength == Strength.PASSKEY:
        yield f"the approval of {link.principal} was not signed with a passkey."
    if terms.strength == Strength.TYPED and link.says.get("typed") is not True:
        yield f"the approval of {link.principal} was not typed."


def is_signed_in_advance(link: Link) -> bool:
    """True if its grant was given with a passkey."""
    return link.via == Surface.GRANT and link.says.get(SIGNED) is True


def statement_of(says: Mapping[str, Any], before: Sequence[Link], nonce: str) -> dict[str, Any]:
    """The statement of a decision, or of an operator's word, whose event says this, on what the
    transaction is after the events ``before``: on the terms that it has then.
    """
    receipt = str(says.get("receipt", ""))
    return {
        "tenant": before[0].tenant,
        "transaction": str(before[0].subject),
        "revision": number_in(before),
        "intent_digest": str(says.get("intent_digest")),
        "verdict": str(says.get("verdict")),
        "terms": asked_by(before).as_json(),
        "nonce": nonce,
        **({"receipt": receipt} if receipt else {}),
    }


def assertion_faults(
    says: Mapping[str, Any], at: datetime, before: Sequence[Link], keys: passkeys.Keys
) -> Iterator[str]:
    """Check that one of these keys, those of its maker then, signed the decision or the settlement
    whose event says this, once, on what the transaction was after the events ``before``.
    """
    assertion = says[passkeys.ASSERTION]
    nonce = passkeys.nonce_of(assertion)
    signed = [link.says[passkeys.ASSERTION] for link in before if passkeys.ASSERTION in link.says]
    if nonce in map(passkeys.nonce_of, signed):
        yield "what was signed counted before."
    statement = statement_of(says, before, nonce)
    yield from passkeys.signature_faults(assertion, statement, keys, at)
