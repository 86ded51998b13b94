"""Terms of a transaction, and what they took of budgets, against the rules and its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ledger.seals import Link
from ledger.sign_off import rules
from ledger.sign_off.rules import Base, Facts, Judgement, facts_of, terms_from
from ledger.states import State
from ledger.transactions import votes
from ledger.transactions.sign_offs.chains import name_of

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


def charge_faults(
    row: Any, proposed: Any | None, links: Sequence[Link], judge: Judge
) -> Iterator[str]:
    """Check that the first terms took all of the budgets by which they are so loose, once.

    ``proposed`` is the transaction as it was then, where that is known.
    """
    first = votes.sealed_terms(links[:1])
    taken = (first or {}).get("charges", [])
    later = [votes.sealed_terms([link]) for link in links[1:]]
    if any(terms.get("charges", []) != taken for terms in later if terms is not None):
        yield f"transaction {row.id}: later terms have other charges than the first ones."
    if first is None or row.content_erased_at is not None or row.state == State.REFUSED:
        return
    is_charged = False
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        facts = facts_of(proposed)
        base = Base(terms_from(first["contract"]), terms_from(first["floor"]))
        judgement = judge(row.tenant, int(first["set"]), facts, base)
        is_charged = rules.is_charged(judgement, terms_from(first), taken, facts, links[0].at)
    if not is_charged:
        yield f"transaction {row.id}: its charges are not those of the rules that let it pass."


def renewal_faults(links: Sequence[Link]) -> Iterator[str]:
    """Check that no later terms are looser than those before, nor of another contract."""
    for number, link in enumerate(links[1:], 1):
        new = votes.sealed_terms([link])
        if new is not None and not _are_at_least(new, links[:number]):
            yield f"{name_of(link)}: it asks for less than before."


def _are_at_least(new: Mapping[str, Any], before: Sequence[Link]) -> bool:
    asked = votes.asked_by(before)
    contract = {"contract": asked.as_json(), "floor": asked.as_json()}
    sealed = votes.sealed_terms(before) or contract
    is_same = all(new.get(part) == sealed.get(part) for part in contract)
    return is_same and terms_from(new).covers(asked)
