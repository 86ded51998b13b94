"""Checks that the vote of a principal on a transaction counts, and fills a seat."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from ledger import events, seals
from ledger.agents import Citation
from ledger.errors import InvalidRequest, NotAllowed, NotPossible, Sentence
from ledger.models import Transaction, Verdict
from ledger.principals import Principal, Surface
from ledger.seals import Link
from ledger.sign_off import passkeys
from ledger.sign_off.grants import SIGNED
from ledger.sign_off.revisions import makers_in
from ledger.sign_off.rules import Strength, Terms, filled_seats
from ledger.transactions import sign_offs, votes
from ledger.transactions.cases import check_evidence, check_is_not_stopped


@dataclass(frozen=True, slots=True)
class Ballot:
    """One decision that somebody wants to make."""

    verdict: Verdict
    digest: str
    by: Principal
    via: Surface
    reason: str = ""
    policy: Citation | None = None
    seconds_shown: float | None = None
    undo_seconds: int = 0
    typed: bool = False
    assertion: Mapping[str, str] | None = None  # signed with a passkey, as ``MEMBERS`` says
    together: int = 1  # how many were approved by one click, this one included
    # Members of the event of one that was given in advance: by which grant, and what it charged.
    in_advance: Mapping[str, Any] = field(default_factory=dict)


class Vote(TypedDict):
    """A decision on what its maker saw."""

    digest: str
    by: Principal
    via: Surface
    reason: NotRequired[str]
    policy: NotRequired[Citation | None]  # of a supervising agent; sealed with the decision
    seconds_shown: NotRequired[float | None]  # how long a person had it before them; sealed, too
    typed: NotRequired[bool]  # a person typed the amount, or the name, of what is approved
    assertion: NotRequired[Mapping[str, str] | None]
    together: NotRequired[int]
    in_advance: NotRequired[Mapping[str, Any]]
    undo_seconds: NotRequired[int]  # in which its maker can withdraw an approval; nobody begins


IS_SIGNED = Sentence("It has to be signed with a passkey.")
REASON_IS_MISSING = {
    Verdict.REJECT: Sentence("A rejection needs a reason; it is what the agent learns from."),
    Verdict.SEND_BACK: Sentence("Say what to propose instead; the agent reads it."),
    Verdict.PASS_ON: "Say why it is passed on: people read it before they decide.",
}


def check_may_decide(row: Transaction, vote: Ballot, earlier: list[Link]) -> None:
    """Check, whatever the surface, that the contract accepts this kind of principal."""
    by, in_contract = str(vote.by), row.required_approver
    if vote.verdict == Verdict.PASS_ON and not votes.may_pass_on(by, in_contract):
        raise NotAllowed("Only a supervising agent passes a decision on.")
    if not votes.may_sign_off(by, in_contract):
        raise NotAllowed(
            Sentence("The contract of {tool} asks for a person to decide.", tool=row.tool)
            if vote.by.is_agent
            else Sentence("The contract of {tool} asks for an approver.", tool=row.tool)
        )
    if not votes.may_sign_off(by, votes.required_approver(in_contract, earlier)):
        raise NotPossible()
    if vote.verdict == Verdict.APPROVE:
        check_is_not_stopped(row)
    if vote.verdict == Verdict.APPROVE and row.evidence:
        check_evidence(row, vote.by)


def check_is_no_keeper(
    vote: Ballot, sealed: Mapping[str, Any], keepers: Collection[str], first: Link
) -> None:
    """Raises ``NotAllowed``: an agent and its keeper are one voice, and nobody signs for itself."""
    voter = votes.voter_of(str(vote.by), sealed)
    if not votes.is_of_a_keeper(voter, keepers, first.says):
        return
    if voter == votes.UNKNOWN_KEEPER:
        raise NotAllowed(
            Sentence(
                "Nobody is named who keeps you, so it may be who keeps the agent that proposed it."
            ),
            hint="An operator names your keeper in Settings, Agents.",
        )
    raise NotAllowed(
        "The agent that proposed it has the same keeper; somebody else has to decide."
        if vote.by.is_agent
        else "You keep the agent that proposed it; somebody else has to decide."
    )


def check_policy(vote: Ballot, sealed: Mapping[str, Any], first: Link) -> None:
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


def check_fills_a_seat(
    row: Transaction, at: datetime, links: Sequence[Link], vote: Ballot, says: Mapping[str, Any]
) -> list[frozenset[str]]:
    """The voters with this approval, whose event says this, each with the seats it may fill.

    Raises ``NotAllowed`` for a second vote of one keeper, and for one that no open seat takes.
    """
    terms, earlier = votes.asked_by(links), votes.standing_decisions(links)
    voter = votes.voter_of(str(vote.by), says)
    if voter in votes.approvers_in(earlier):
        raise NotAllowed(
            Sentence(
                "An agent of the same keeper has approved it, or the keeper: together they have "
                "one vote, and the contract of {tool} asks for {number}.",
                tool=row.tool,
                number=row.quorum,
            )
        )
    if terms.quorum > 1 and voter in makers_in(links):
        raise NotAllowed(
            Sentence("You have changed it, and it takes {number} others.", number=row.quorum),
            hint=Sentence("Nothing was decided. You may change it again, or reject it."),
        )
    before = [*votes.seats_by_voter(links, terms, links).values()]
    voters = [*before, votes.seats_open_to(says, at, links, terms)]
    if filled_seats(terms, voters) == filled_seats(terms, before):
        raise NotAllowed(
            Sentence(
                "It waits for {who}, and you are in none of these groups.",
                who=", ".join(sorted(terms.groups)),
            ),
            hint=Sentence("Nothing was decided. You may reject it."),
        )
    return voters


def check_assertion(
    links: Sequence[Link], at: datetime, by: Principal, says: Mapping[str, Any]
) -> None:
    """Raises ``NotAllowed`` for a vote or a settlement, whose event says this, that no key of its
    maker signed.

    Until it is committed none of these keys ends.
    """
    events.lock_chain(str(by))
    keys = passkeys.keys_of(str(by))
    passkeys.refuse(votes.assertion_faults(says, at, links, keys))


def check_fits_terms(row: Transaction, vote: Ballot, terms: Terms) -> None:
    """Raises ``NotAllowed, InvalidRequest`` for an approval that is not as the terms ask."""
    if terms.is_denied:
        raise NotAllowed(
            Sentence("The rules deny it by now: nobody can approve it."),
            hint=Sentence("Nothing was decided. Reject it, or let it expire."),
        )
    if not terms.seats:
        return
    if terms.desk_only and vote.via not in votes.AT_THE_DESK:
        raise NotAllowed(Sentence("It is decided at the desk only."))
    if terms.one_by_one and vote.together > 1:
        raise NotAllowed(
            Sentence("The rules ask to decide on it alone, not together with others."),
            hint=Sentence("Nothing was decided. Open it, and decide there."),
        )
    if terms.needs_note and not vote.reason.strip():
        raise InvalidRequest(
            Sentence("The rules ask for a note: say why you approve it."),
            hint=Sentence("Nothing was decided."),
        )
    is_signed = bool(vote.assertion) or vote.in_advance.get(SIGNED) is True
    if terms.strength == Strength.PASSKEY and not is_signed:
        raise NotAllowed(
            IS_SIGNED,
            hint=Sentence("Nothing was decided. Open it on the desk, and sign there."),
        )
    if terms.strength == Strength.TYPED and not (vote.typed or is_signed):
        raise InvalidRequest(
            Sentence("The rules ask to type the amount, or the name, of {tool}.", tool=row.tool),
            hint=Sentence("Nothing was decided."),
        )
