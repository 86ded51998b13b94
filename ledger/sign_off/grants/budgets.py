"""Charging budgets: a transaction takes its part in the database transaction that inserts it.

A budget never lets more pass than its limit: it is one row, compared and raised in one statement.
A part is given back by a trigger when nothing came of the transaction, and taken again, also over
the limit, when a receipt comes late.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import connection
from django.db.models.functions import Now

from ledger.models import Budget, Tenant
from ledger.sign_off.rules import Charge

# The foreign key of the charge is checked at commit: its transaction may be inserted after it.
_TAKE = """
    WITH taken AS (
        INSERT INTO ledger_budget AS budget (tenant, owner, measure, period, used)
        SELECT %(tenant)s, %(owner)s, %(measure)s, %(period)s, %(amount)s
        WHERE %(amount)s <= %(most)s
        ON CONFLICT (tenant, owner, measure, period)
            DO UPDATE SET used = budget.used + excluded.used
            WHERE budget.used + excluded.used <= %(most)s
        RETURNING id
    )
    INSERT INTO ledger_charge (budget_id, transaction_id, amount)
    SELECT taken.id, %(transaction)s, %(amount)s FROM taken
    RETURNING budget_id
"""


class Full(Exception):
    """Raised for a budget without room for this charge; the caller rolls back what it charged."""

    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        super().__init__(charge)


def take(tenant: str, transaction_id: UUID, charges: Iterable[Charge]) -> None:
    """Charge all of them, always in the same order. Raises ``Full``."""
    for charge in sorted(charges, key=lambda each: each.budget):
        parameters = {
            "tenant": tenant,
            "transaction": transaction_id,
            **{name: getattr(charge, name) for name in ("owner", "measure", "period")},
            "amount": charge.amount,
            "most": charge.most,
        }
        with connection.cursor() as cursor:
            cursor.execute(_TAKE, parameters)
            if cursor.fetchone() is None:
                raise Full(charge)


def used_of(tenant: str, owners: Iterable[str]) -> dict[tuple[str, str, str], Decimal]:
    """The parts of their budgets that are used by now: by owner, measure and period."""
    rows = Budget.objects.filter(tenant=tenant, owner__in={*owners})
    return {(row.owner, row.measure, row.period): row.used for row in rows}


def have_room(tenant: str, charges: Iterable[Charge]) -> bool:
    charges = list(charges)
    used = used_of(tenant, (charge.owner for charge in charges))
    return all(used.get(each.budget, Decimal()) + each.amount <= each.most for each in charges)


def clock_of(tenant: str) -> tuple[str, datetime]:
    """The zone of its budgets, and the database's time."""
    zone, now = Tenant.objects.values_list("time_zone", Now()).get(pk=tenant)
    return zone, now
