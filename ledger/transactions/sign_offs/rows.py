"""The row of a transaction: each column is as its events sealed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ledger import seals
from ledger.contracts import CLICK, STRENGTHS
from ledger.events import content_faults, erasure_in, former_digests, order_faults
from ledger.models import Transaction
from ledger.seals import Link
from ledger.sign_off import revisions, rules
from ledger.states import State
from ledger.tools import tool_of
from ledger.transactions import deadlines, votes
from ledger.transactions.sign_offs.actors import sign_off_faults
from ledger.transactions.sign_offs.chains import MOVES, chain_faults, links_of, name_of
from ledger.transactions.sign_offs.former import as_of, former_of, revision_faults
from ledger.transactions.sign_offs.terms import charge_faults, terms_faults

# The columns that a tool receives when it compensates a call, and by which it was judged.
SEALED_LATER = ("receipt", "result", "terms")


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
        or revisions.sealed_last(links, "row_digest") != _row_digest(row, links)
    ):
        return "The transaction was changed after it was signed off."
    former = former_of(row.pk, links)
    for fault in (
        *chain_faults(links, MOVES),
        *revision_faults(row, former, links),
        *sign_off_faults(row, links),
        *terms_faults(row, rules.judged_by),
        *charge_faults(row, as_of(row, former, links, 1), links, rules.judged_by),
    ):
        return f"Its sealed history does not allow it: {fault}"
    if links[-1].to_state != row.state:
        return f"Its sealed history does not allow it: no event made it {row.state}."
    return next(outcome_faults(row, links, SEALED_LATER), "")


def why_not_to_begin(row: Transaction, links: Sequence[Link] | None = None) -> str:
    """Why a worker must not carry it out; empty if it may.

    Terms are in the database, contracts are not: what asks for less than its contract does by now
    may have been prepared by somebody who can write there.
    """
    links = links_of(row.pk) if links is None else links
    if why := why_not_to_act(row, links):
        return why
    tool, asked = tool_of(row), votes.asked_by(links)
    if tool is None or tool.contract.strength == CLICK:
        return ""
    if STRENGTHS.index(asked.strength) < STRENGTHS.index(tool.contract.strength):
        return (
            f"Its contract asks people for more than a {asked.strength} by now: "
            f"{tool.contract.strength}."
        )
    base, sealed = rules.base_of_contract(tool.contract), votes.sealed_terms(links) or {}
    for part, least in (("contract", base.own), ("floor", base.floor)):
        if not rules.terms_from(sealed.get(part, {})).covers(least):
            return "Its contract asks for more people by now."
    return ""


def row_faults(row: Any, links: Sequence[Link]) -> Iterator[str]:
    """Check every column of a transaction's row against what its events sealed."""
    name = f"transaction {row.id}"
    first, last = links[0], links[-1]
    says = first.says
    erasure = erasure_in(links)
    former = former_digests(erasure) if erasure is not None else {}
    if row.state != last.to_state:
        yield f"{name} is {row.state}, but its last event ({last.id}) left it {last.to_state}."
    if revisions.sealed_last(links, "row_digest") != _row_digest(row, links, former):
        yield f"{name} is not what was prepared: its columns do not have the sealed digest."
    if erasure is not None:
        yield from content_faults(row, links, erasure)
    elif seals.digest_of(seals.intent_of(row)) != row.intent_digest:
        yield f"{name} does not have the intent digest that it was signed off by."
    derived = seals.OF_TERMS if row.terms is not None else frozenset()
    if revisions.sealed_last(links, "intent_digest") != row.intent_digest:
        yield f"{name}: intent_digest is not the sealed one."
    for column in {"quorum", "required_approver", "input_hash"} - derived:
        if says.get(column) != getattr(row, column):
            yield f"{name}: {column} is not the sealed one."
    if row.keeper_may_sign != (says.get(seals.KEEPER_MAY_SIGN) is True):
        yield f"{name}: keeper_may_sign is not the sealed one."
    if row.required_policy != says.get(seals.REQUIRED_POLICY, ""):
        yield f"{name}: required_policy is not the sealed one."
    sealed_evidence = revisions.sealed_last(links, seals.EVIDENCE) if erasure is None else None
    if [each.get("sha256") for each in row.evidence or []] != (sealed_evidence or []):
        yield f"{name}: evidence is not the sealed one."
    if (row.tenant, row.proposed_by) != (first.tenant, first.principal):
        yield f"{name}: tenant or proposer is not that of its first event."
    if any(link.transaction_id != row.id for link in links):
        yield f"{name}: one of its events names another transaction."
    if row.state == State.PREPARED and row.open_seats != votes.open_seats_after(
        links, votes.asked_by(links)
    ):
        yield f"{name}: open_seats is not what its votes left."
    if row.state == State.PREPARED and (row.asked_at is None) == deadlines.has_open_question(links):
        yield f"{name}: whether a question waits is not what its events left."
    if seals.as_text(row.replaces) != says.get(seals.REPLACES, ""):
        yield f"{name}: replaces is not the sealed one."
    yield from outcome_faults(row, links, seals.OUTCOME)
    for link, fault in order_faults(links, seals.as_text(row.retain_until)):
        yield f"{name_of(link)}: {fault}"


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
