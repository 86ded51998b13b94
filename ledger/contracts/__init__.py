"""Promises of a tool (its contract), its arguments and results, and the registry of tools.

    @transactional(
        risk_level="HIGH", required_approver="HUMAN", consequence_level="COMPENSABLE",
        owner_service="payments", operation_key="refund:{tenant}:{payment_id}:{reason}",
        receipt="refund_id",
    )
    def refund_customer(payment_id: str, amount: Decimal, reason: str, context: Context) -> dict:
        ...

    @refund_customer.plan
    def plan(payment_id: str, amount: Decimal) -> Plan:
        ...

A companion declares, by name, the arguments of the tool that it needs, and ``context``.
Tool authors import from this package: ``from ledger.contracts import transactional``.

A tool that runs elsewhere is a further class beside ``Tool``, with its own ``run``
(``ledger.tools.http``): everything else of a tool stays as it is.
"""

from __future__ import annotations

from ledger.contracts.contract import (
    CLICK,
    LONGEST_CALL,
    LONGEST_RETENTION,
    STRENGTHS,
    ConsequenceLevel,
    Contract,
    RequiredApprover,
    Retry,
    RiskLevel,
    key_fields,
    published_types,
)
from ledger.contracts.plan import (
    CURRENCIES,
    Context,
    MayHaveHappened,
    NotDoneYet,
    NothingHappened,
    NothingHappenedYet,
    Plan,
)
from ledger.contracts.registry import (
    RESERVED,
    declared_twice,
    readonly,
    readonly_tools,
    tools,
    transactional,
)
from ledger.contracts.tool import ReadonlyTool, Role, Tool

__all__ = [
    "CLICK",
    "CURRENCIES",
    "LONGEST_CALL",
    "LONGEST_RETENTION",
    "RESERVED",
    "STRENGTHS",
    "ConsequenceLevel",
    "Context",
    "Contract",
    "MayHaveHappened",
    "NotDoneYet",
    "NothingHappened",
    "NothingHappenedYet",
    "Plan",
    "ReadonlyTool",
    "RequiredApprover",
    "Retry",
    "RiskLevel",
    "Role",
    "Tool",
    "declared_twice",
    "key_fields",
    "published_types",
    "readonly",
    "readonly_tools",
    "tools",
    "transactional",
]
