"""The measured tools: what they do takes no time, and their result says when it began."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any

from ledger.contracts import Context, NothingHappened, Plan, transactional


@transactional(
    owner_service="bench",
    operation_key="bench:{tenant}:{name}",
    receipt="receipt",
    risk_level="LOW",
    consequence_level="IRREVERSIBLE",
)
def measured(name: str) -> dict[str, Any]:
    """Does nothing, at once. Its plan does no I/O."""
    return {"receipt": f"r-{name}", "began": time.time()}


@measured.plan
def _plan(name: str) -> Plan:
    return Plan(f"Do nothing for {name}")


@transactional(
    owner_service="bench",
    operation_key="hanging:{tenant}:{name}",
    receipt="receipt",
    risk_level="LOW",
    consequence_level="IRREVERSIBLE",
    timeout=timedelta(minutes=1),
)
def hanging(name: str) -> dict[str, Any]:
    """Answers when nobody waits any more."""
    time.sleep(600)
    return {"receipt": f"r-{name}"}


@transactional(
    owner_service="bench",
    operation_key="supervised:{tenant}:{name}",
    receipt="receipt",
    risk_level="LOW",
    consequence_level="IRREVERSIBLE",
    required_approver="SUPERVISOR",
)
def supervised(name: str, payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Writes one line into the file that plays the outside world in bench/peers.

    It has no plan, as the other products have none.
    """
    effects = os.open(os.environ["PEER_EFFECTS"], os.O_WRONLY | os.O_APPEND)
    os.write(effects, f"{name} {time.time()}\n".encode())
    os.close(effects)
    return {"receipt": f"r-{name}"}


@transactional(
    owner_service="bench",
    operation_key="unplanned:{tenant}:{name}",
    receipt="receipt",
    risk_level="LOW",
    consequence_level="IRREVERSIBLE",
)
def unplanned(name: str) -> dict[str, Any]:
    """The same, of a tool without a plan of its own."""
    return {"receipt": f"r-{name}", "began": time.time()}


@transactional(
    owner_service="bench",
    operation_key="pay_back:{tenant}:{name}",
    receipt="receipt",
    risk_level="LOW",
    consequence_level="IRREVERSIBLE",
    subject="name",
)
def pay_back(name: str) -> dict[str, Any]:
    """Names whom it concerns."""
    return {"receipt": f"r-{name}"}


@transactional(
    owner_service="bench",
    operation_key="refunded:{tenant}:{name}",
    receipt="receipt",
    risk_level="LOW",
    required_approver="HUMAN",
    consequence_level="COMPENSABLE",
    floor="NONE",
)
def refunded(name: str, amount: int = 5) -> dict[str, Any]:
    """Writes what it pays into a file; every seventh time it says that it paid nothing."""
    if name.endswith("7"):
        raise NothingHappened("The account is closed.")
    paid = os.open(os.environ["PAID"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(paid, f"{name} {amount}\n".encode())
    os.close(paid)
    return {"receipt": f"r-{name}"}


@refunded.plan
def _plan_refunded(name: str, amount: int) -> Plan:
    return Plan(f"Refund {amount} EUR to {name}", amount=Decimal(amount), currency="EUR")


@refunded.compensate
def _take_back(name: str) -> str:
    return f"c-{name}"
