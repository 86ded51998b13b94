"""Terms of a transaction, made anew: other rules are active by now, or it is another revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.transaction import atomic

from ledger import states
from ledger.models import Transaction
from ledger.principals import POLICY, Surface
from ledger.seals import Link
from ledger.sign_off import rules
from ledger.sign_off.rules import Base, Judgement, facts_of, terms_from
from ledger.states import State
from ledger.transactions import sign_offs, votes
from ledger.transactions.transitions import FRESH, advance


def renew_terms(transaction_id: UUID) -> None:
    """Judge what nobody has begun by the rules that are active now.

    Its terms become stricter or stay; votes that fit them still count. What was signed off and is
    not any more waits again, for what is left of its time.
    """
    with atomic():
        rows = Transaction.objects.select_for_update().filter(pk=transaction_id)
        row = rows.filter(state__in=[State.PREPARED, State.APPROVED]).first()
        number = rules.active_number(row.tenant) if row is not None else 0
        if row is None or number == rules.set_of(row.terms):
            return
        links = sign_offs.links_of(row.pk)
        judgement = judged_anew(row, links, number)
        columns = columns_of_terms(row, judgement)
        columns["open_seats"] = votes.open_seats_after(links, judgement.terms)
        origin: dict[str, Any] = {"by": POLICY, "via": Surface.SYSTEM}
        if row.state == State.APPROVED and not votes.is_enough(links, judgement.terms):
            columns |= {"decided_at": None, "settlement": None}
            advance(row.pk, states.TIGHTEN_TERMS, **origin, work=FRESH, **columns)
        else:
            advance(row.pk, states.RENEW_TERMS, **origin, **columns)


def judged_anew(row: Any, links: Sequence[Link], number: int) -> Judgement:
    """The judgement of it by these rules, at least as strict as what was asked before."""
    asked = votes.asked_by(links)
    base = Base(asked, asked)
    if row.terms is not None:
        base = Base(terms_from(row.terms["contract"]), terms_from(row.terms["floor"]))
    return rules.judged_by(row.tenant, number, facts_of(row), base).joined_with(asked)


def columns_of_terms(row: Any, judgement: Judgement) -> dict[str, Any]:
    """Its charges stay, whatever is asked by now."""
    kept = {"charges": row.terms["charges"]} if "charges" in (row.terms or {}) else {}
    return {
        "terms": judgement.as_json() | kept,
        "required_approver": judgement.terms.required_approver.value,
        "quorum": judgement.terms.quorum,
    }
