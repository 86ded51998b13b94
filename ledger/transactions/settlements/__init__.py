"""Settlements by operators: doubt, late receipts, work no worker can do, compensations."""

from __future__ import annotations

from ledger.transactions.settlements.by_hand import STUCK_AFTER, open_outcomes
from ledger.transactions.settlements.orders import described_settlement, needs_second_operator
from ledger.transactions.settlements.settling import compensate, resolve

__all__ = [
    "STUCK_AFTER",
    "compensate",
    "described_settlement",
    "needs_second_operator",
    "open_outcomes",
    "resolve",
]
