"""Inserting a transaction together with what it takes of budgets, and with the signatures that were
given in advance: one database transaction, so that a crash leaves all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import Any

from django.db import OperationalError
from django.db.transaction import atomic

from ledger.contracts import RequiredApprover
from ledger.errors import LedgerError
from ledger.foundation.postgres import is_locked
from ledger.models import Decision, Grant, TransactionRow, Verdict
from ledger.principals import Principal, Surface
from ledger.sign_off import grants
from ledger.sign_off.rules import Charge, Facts, Judgement, charges_for, charges_of
from ledger.states import State
from ledger.transactions.decisions import decide
from ledger.transactions.prepare.admission import Admission
from ledger.transactions.prepare.drafts import New
from ledger.transactions.prepare.judging import facts_known
from ledger.transactions.prepare.planning import Planned
from ledger.transactions.prepare.proposals import Request

# Makes the draft of a transaction on these terms.
Draft = Callable[[Judgement | None], New]
Insert = Callable[[New], bool]


class _NotInserted(Exception):
    """Raised so that what was charged is rolled back."""


def insert_charged(
    request: Request,
    planned: Planned,
    judgement: Judgement | None,
    admission: Admission,
    created_at: datetime,
    draft: Draft,
    insert: Insert,
) -> New | None:
    """The transaction, if it was inserted. A budget without room lets nothing pass: people are
    asked."""
    facts = facts_known(request, planned)
    charges: dict[int, list[Charge]] = {}
    if judgement is not None:
        charges = charges_of(judgement, facts, created_at, admission.zone)
        taken = tuple(each for of_rule in charges.values() for each in of_rule)
        judgement = replace(judgement, charges=taken)
    new = draft(judgement)
    if not charges and not admission.has_grants:
        return new if insert(new) else None
    try:
        with atomic():
            grants.take(request.tenant, new.row.id, judgement.charges if judgement else ())
            if not insert(new):
                raise _NotInserted
            if admission.has_grants and new.row.required_approver != RequiredApprover.NONE:
                _sign_in_advance(new.row, facts, created_at, admission.zone)
    except _NotInserted:
        return None
    except (grants.Full, OperationalError) as failure:
        if judgement is None or not charges or not _is_full(failure):
            raise
        full = [
            number
            for number, of_rule in charges.items()
            if not isinstance(failure, grants.Full) or failure.charge in of_rule
        ]
        asked = replace(judgement.with_full(*full), charges=())
        return insert_charged(request, planned, asked, admission, created_at, draft, insert)
    return new


def _is_full(failure: Exception) -> bool:
    """True also where somebody else has the budget, and hangs: people are asked."""
    return isinstance(failure, grants.Full) or is_locked(failure)


def _sign_in_advance(row: TransactionRow, facts: Facts, now: datetime, zone: str) -> None:
    """Enter the signatures of every grant that covers it, until it is signed off."""
    if row.evidence:
        return  # nobody has seen it
    for grant in grants.covering(row.tenant, row.proposed_by, facts, row.warnings):
        try:
            with atomic():
                if _signed_by(grant, row, facts, now, zone):
                    return
        except (LedgerError, grants.Full):
            continue
        except OperationalError as failure:
            if not is_locked(failure):
                raise
            return  # somebody holds it and hangs: people are asked, after one such wait


def _signed_by(grant: Grant, row: TransactionRow, facts: Facts, now: datetime, zone: str) -> bool:
    """True if it is signed off with this grant. Raises ``LedgerError, grants.Full``."""
    voters = set(Decision.objects.filter(transaction=row.id).values_list("principal", flat=True))
    signers = [signer for signer in grant.signers if signer[0] not in voters]
    if not signers or grants.locked(grant.pk) is None:
        return False
    for check, (principal, _name) in product(grants.CHECKS, grant.signers):
        check(grant, principal, row)
    owner, limits = grants.owner_of(grant), grants.budgets_of(grant)
    charges = charges_for(owner, limits, facts, now, zone) or []
    grants.take(row.tenant, row.id, charges)
    says: dict[str, Any] = {"grant": grant.pk, "charges": [each.as_json() for each in charges]}
    says |= {"break_glass": True} if grant.is_break_glass else {}
    says |= {grants.SIGNED: True} if grants.is_signed(grant) else {}
    for principal, name in signers:
        signed = decide(
            row.id,
            Verdict.APPROVE,
            digest=row.intent_digest,
            by=Principal.parse(principal, name),
            via=Surface.GRANT,
            reason=grant.why,
            typed=grant.typed,
            in_advance=says,
        )
        if signed.state != State.PREPARED:
            return True
        says["charges"] = []
    return False
