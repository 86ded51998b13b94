"""The tool with which a new installation is tried: people sign it off, and it does nothing."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from ledger.contracts import Context, Plan, transactional


@transactional(
    owner_service="assent",
    operation_key="try_it:{tenant}:{number}",
    receipt="receipt",
    risk_level="LOW",
    consequence_level="REVERSIBLE",
    retry_safe=True,
    timeout=timedelta(seconds=10),
    undo="Nothing has to be undone: it has no effect.",
    # It is proposed by an agent of whoever tries it, who may be alone here.
    keeper_may_sign=True,
)
def try_it(number: Annotated[str, Field(min_length=1, max_length=40)], context: Context) -> Any:
    """Pretends to refund €12.00. It has no effect, whatever is decided."""
    return {"receipt": f"try_{number}"}


@try_it.plan
def _plan(number: str, context: Context) -> Plan:
    return Plan(
        "Pretend to refund €12.00 to Ada Example for order 1001",
        amount=Decimal("12.00"),
        currency="EUR",
    )


@try_it.rollback
def _rollback(number: str, context: Context) -> None:
    """Nothing is held."""


try_it.is_listed = False
