"""The measured tool: its plan does no I/O, and its result says when it began."""

from __future__ import annotations

import time
from typing import Any

from ledger.contracts import Context, Plan, transactional


@transactional(
    owner_service="bench",
    operation_key="bench:{tenant}:{name}",
    receipt="receipt",
    risk_level="LOW",
    consequence_level="IRREVERSIBLE",
)
def measured(name: str, context: Context) -> dict[str, Any]:
    """Does nothing, at once."""
    return {"receipt": f"r-{name}", "began": time.time()}


@measured.plan
def _plan(name: str) -> Plan:
    return Plan(f"Do nothing for {name}")
