"""Grants at the desk: who may give, use and end signatures in advance."""

from __future__ import annotations

from django.utils.translation import gettext as _

from approvals.http.middleware import Roles, roles_of
from approvals.models import Role
from approvals.people import require_another_person, user_of
from ledger.errors import NotAllowed, Sentence
from ledger.models import Decision, Grant, Transaction, TransactionRow, Verdict
from ledger.transactions import keepers_of


def check_signer(grant: Grant, principal: str, row: Transaction | TransactionRow) -> None:
    """Raises ``NotAllowed`` where this person could not sign it by hand now.

    Break-glass is signed by operators, any other grant by managers. Who could be the same person as
    an earlier voter, or as a keeper of the agent, does not sign.
    """
    person = user_of(principal)
    role = Role.OPERATOR if grant.is_break_glass else Role.APPROVER
    if not person.is_active or role not in roles_of(person).get(row.tenant, frozenset()):
        raise NotAllowed(Sentence("Whoever signed in advance may not decide any more."))
    earlier = Decision.objects.filter(transaction=row.id, verdict=Verdict.APPROVE)
    others = [given.kept_by or given.principal for given in earlier]
    keepers = () if row.keeper_may_sign else keepers_of(row.proposed_by, row.created_at)
    require_another_person(person, [*others, *keepers], _("{name} has a part in it."))


def may_end(grant: Grant, roles: Roles) -> bool:
    """True for every manager and operator of its organisation: ending one only tightens."""
    return bool(roles.get(grant.tenant, frozenset()) & {Role.APPROVER, Role.OPERATOR})
