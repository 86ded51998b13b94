"""Claim, call and record: how workers carry out a signed-off transaction exactly once.

A worker claims a transaction in a short database transaction, calls the tool outside of any, and
records the outcome in another short one that compares its fencing token. A worker may die at any
line: when its lease runs out, the sweeper marks the transaction *in doubt*, and it stays so until
the outcome is known.

``commit``, ``rollback`` and ``doubt`` are the procedures; ``claims`` is the claim,
``tool_calls`` the call, ``recording`` the record. How a tool runs is the business of ``Tool.run``
(``ledger.contracts``), which ``tool_calls`` calls with a deadline.

What the proposing agent carries out itself no worker claims: redeeming its permit is the claim
(``redemption``), and the receipt is what the agent posts (``posted_receipts``).
"""

from __future__ import annotations

from ledger.execution.claims import claim, run
from ledger.execution.commit import commit
from ledger.execution.doubt import doubt_lapsed_lease, doubt_restored
from ledger.execution.executions import Executions
from ledger.execution.posted_receipts import take_receipt, take_refusal
from ledger.execution.rollback import compensate, roll_back

__all__ = [
    "Executions",
    "claim",
    "commit",
    "compensate",
    "doubt_lapsed_lease",
    "doubt_restored",
    "roll_back",
    "run",
    "take_receipt",
    "take_refusal",
]
