"""Recommendations of supervising agents where people decide: sealed, and never a vote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledger import seals, states
from ledger.contracts import RequiredApprover
from ledger.models import Verdict
from ledger.principals import Principal
from ledger.seals import Link
from ledger.sign_off import revisions
from ledger.transactions import votes

RECOMMENDS = "recommends"  # in the details of its event
RECOMMENDED = (Verdict.APPROVE, Verdict.REJECT)
ADVISED = states.ADVISE.kind


def standing_advice(links: Sequence[Link]) -> list[Link]:
    """The advice on the present revision."""
    standing: list[Link] = []
    for link in links:
        standing = [] if link.kind == revisions.REVISED else standing
        if link.kind == ADVISED:
            standing.append(link)
    return standing


def people_decide(in_terms: str, before: Sequence[Link]) -> bool:
    """True if people alone decide after these events, on terms that ask for this approver."""
    return votes.required_approver(in_terms, before) == RequiredApprover.HUMAN


def is_of_same_keeper(adviser: str, says: Mapping[str, Any]) -> bool:
    """True if who keeps the proposer keeps the adviser as well, or may: whatever the contract
    allows, its advice would be the proposer's own."""
    keepers = says.get(seals.PROPOSER_KEPT_BY, [])
    return votes.is_of_a_keeper(votes.voter_of(adviser, says), keepers, {})


def advice_faults(link: Link, before: Sequence[Link]) -> Iterator[str]:
    """Check that an agent might advise on it then, once, and on what it was."""
    says, by = link.says, link.principal
    if not Principal.parse(by).is_agent:
        yield f"advice of {by}, which is no agent."
    if not people_decide(votes.asked_by(before or [link]).required_approver, before):
        yield "advice on what people do not decide alone."
    if says.get(RECOMMENDS) not in RECOMMENDED:
        yield f"it recommends {says.get(RECOMMENDS)!r:.40}."
    if says.get("intent_digest") != revisions.sealed_last(before, "intent_digest"):
        yield "the advice is on something else than what was prepared."
    if by in {earlier.principal for earlier in standing_advice(before)}:
        yield f"a second advice of {by}."
    if is_of_same_keeper(by, says):
        yield f"advice of {by}, which has the keeper of the agent that proposed it."
