"""Preview: what a set of rules would have made of the tenant's own history. Reads only.

It is read page by page, so that whoever waits sees how far it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from ledger.contracts import Contract
from ledger.models import Ending, Transaction, TransactionQuerySet
from ledger.sign_off.rules.facts import facts_of
from ledger.sign_off.rules.rules import Rules
from ledger.sign_off.rules.terms import Base, Terms, base_of, base_of_contract, terms_from
from ledger.states import State

PAGE = 10_000
MOST_CHANGED = 100  # that are named
COLUMNS = (
    "id",
    "tool",
    "tool_version",
    "proposed_by",
    "risk_level",
    "consequence_level",
    "arguments",
    "amount",
    "currency",
    "required_approver",
    "quorum",
    "terms",
    "state",
)


class Change(StrEnum):
    """Terms that rules would make of a proposal, compared with those that it had."""

    PASSES = "passes"
    LESS = "less"
    SAME = "same"
    MORE = "more"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Changed:
    """A transaction for which something else would be asked."""

    id: UUID
    before: Terms
    after: Terms
    change: Change
    rules: tuple[int, ...]


@dataclass
class Preview:
    """One page of it, or several together. ``after`` is where to go on; ``None``: it is whole."""

    counts: Counter[Change] = field(default_factory=Counter)
    changed: list[Changed] = field(default_factory=list)
    after: UUID | None = None

    @property
    def judged(self) -> int:
        return self.counts.total()


def proposals(tenant: str, last: timedelta) -> TransactionQuerySet:
    """Those of the time before now that can be judged: planned, and not erased."""
    rows = Transaction.objects.filter(tenant=tenant, content_erased_at=None)
    rows = rows.exclude(state=State.REFUSED).exclude(ending=Ending.ABANDONED)
    return rows.filter(created_at__gte=Now() - last)


def preview(
    rows: TransactionQuerySet,
    rules: Rules,
    contract_of: Callable[[str], Contract | None],
    *,
    after: UUID | None = None,
    most: int = PAGE,
) -> Preview:
    """Judge the next page of these proposals, the newest first.

    ``contract_of`` gives the present contract of a tool: of a proposal from before there were
    rules, its floor is taken from there.
    """
    page = rows.filter(pk__lt=after) if after else rows
    result = Preview()
    read = [*page.order_by("-pk").values_list(*COLUMNS, named=True)[:most]]
    for row in read:
        before, base = _before(row, contract_of)
        judgement = rules.judge(facts_of(row), base)
        change = _change(before, judgement.terms)
        result.counts[change] += 1
        if change != Change.SAME and len(result.changed) < MOST_CHANGED:
            named = Changed(row.id, before, judgement.terms, change, judgement.matched)
            result.changed.append(named)
    result.after = read[-1].id if len(read) == most else None
    return result


def whole(
    rows: TransactionQuerySet, rules: Rules, contract_of: Callable[[str], Contract | None]
) -> Preview:
    """All pages together."""
    result = preview(rows, rules, contract_of)
    while result.after is not None:
        page = preview(rows, rules, contract_of, after=result.after)
        result.counts += page.counts
        result.changed += page.changed[: MOST_CHANGED - len(result.changed)]
        result.after = page.after
    return result


def _before(row: Any, contract_of: Callable[[str], Contract | None]) -> tuple[Terms, Base]:
    """The terms that it had, and its contract then as far as it is known."""
    if row.terms is not None:
        base = Base(terms_from(row.terms["contract"]), terms_from(row.terms["floor"]))
        return terms_from(row.terms), base
    own = base_of(row.required_approver, row.quorum, desk_only=False, floor="").own
    contract = contract_of(row.tool)
    return own, Base(own, base_of_contract(contract).floor if contract else own)


def _change(before: Terms, after: Terms) -> Change:
    if after.is_denied:
        return Change.DENIED
    if after == before:
        return Change.SAME
    if not after.seats:
        return Change.PASSES
    return Change.MORE if after.covers(before) else Change.LESS
