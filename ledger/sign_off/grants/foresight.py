"""Budgets and grants before a proposal is made: whether there is room now, and who would sign."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from ledger.models import Grant, Transaction
from ledger.principals import Principal
from ledger.sign_off import groups
from ledger.sign_off.grants import budgets, grants
from ledger.sign_off.grants.grants import Wanted, has_room
from ledger.sign_off.grants.signed import is_signed
from ledger.sign_off.rules import (
    Facts,
    Judgement,
    Strength,
    Terms,
    are_filled,
    charges_for,
    charges_of,
    facts_of,
    filled_seats,
)
from ledger.sign_off.rules.preview import COLUMNS, proposals

MOST_READ = 10_000  # proposals of the past


class Signing(NamedTuple):
    """The grants that would sign a proposal, and whether they would be enough."""

    grants: list[Grant]
    are_enough: bool


def with_room(tenant: str, judgement: Judgement, facts: Facts) -> Judgement:
    """The judgement of a proposal that were made now; nothing is charged."""
    zone, now = budgets.clock_of(tenant)
    for number, charges in charges_of(judgement, facts, now, zone).items():
        if not budgets.have_room(tenant, charges):
            return judgement.with_full(number)
    return judgement


def signing(agent: Principal, facts: Facts, terms: Terms) -> Signing:
    """The live grants with room that would fill seats of these terms. Warnings are not foreseen."""
    covering = grants.covering(agent.tenant, str(agent), facts, ())
    chosen: list[Grant] = []
    voters: list[frozenset[str]] = []
    for grant in covering if terms.seats and not terms.is_denied else ():
        if not _fits(grant, terms) or not has_room(grant, facts):
            continue
        for principal, _name in grant.signers:
            own = groups.groups_of(agent.tenant, principal)
            more = [*voters, frozenset(terms.groups if grant.is_break_glass else own)]
            if filled_seats(terms, more) > filled_seats(terms, voters):
                voters = more
                chosen += [grant] if grant not in chosen else []
    return Signing(chosen, bool(chosen) and are_filled(terms, voters))


class Past(NamedTuple):
    """Proposals of the past: those that a grant would have signed, of all by its agent and tool."""

    covered: list[UUID]
    sums: dict[str, Decimal]  # by currency
    proposed: int


def past_of(wanted: Wanted, last: timedelta) -> Past:
    """Proposals before now that a grant would have signed, within its budgets.

    That from which it is given does not count.
    """
    rows = proposals(wanted.tenant, last).filter(proposed_by=wanted.agent, tool=wanted.tool)
    if wanted.transaction_id is not None:
        rows = rows.exclude(pk=wanted.transaction_id)
    zone, _now = budgets.clock_of(wanted.tenant)
    limits = grants.rule_of(wanted).then.budgets
    used: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    covered: list[UUID] = []
    sums: dict[str, Decimal] = defaultdict(Decimal)
    read = [*rows.only(*COLUMNS, "warnings", "created_at").order_by("pk")[:MOST_READ]]
    for row in read:
        facts = facts_of(row)
        if not grants.covers(wanted, facts, row.warnings):
            continue
        charges = charges_for("", limits, facts, row.created_at, zone) or []
        if any(used[each.budget] + each.amount > each.most for each in charges):
            continue
        for each in charges:
            used[each.budget] += each.amount
        covered.append(row.id)
        if row.amount is not None:
            sums[row.currency] += row.amount
    return Past(covered, dict(sums), len(read))


def without_room(row: Transaction) -> list[Grant]:
    """The grants that cover what waits, and of which too little was left for it."""
    if row.evidence:
        return []
    facts, signed = facts_of(row), {vote.grant_id for vote in row.decisions.all()}
    covering = grants.covering(row.tenant, row.proposed_by, facts, row.warnings)
    earlier = [each for each in covering if each.given_at <= row.created_at]
    return [each for each in earlier if each.pk not in signed and not has_room(each, facts)]


def _fits(grant: Grant, terms: Terms) -> bool:
    is_strong = terms.strength == Strength.CLICK or is_signed(grant)
    is_typed = terms.strength == Strength.TYPED and grant.typed
    return (is_strong or is_typed) and (bool(grant.why) or not terms.needs_note)
