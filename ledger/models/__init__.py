"""The tables of the ledger. Read them anywhere; write them through the verbs."""

from __future__ import annotations

from ledger.models.deliveries import Delivery, DeliveryState
from ledger.models.transactions import (
    HOLDS_ITS_KEY,
    NEEDS_A_LOOK,
    Agent,
    AgentToken,
    Checkpoint,
    Cosignature,
    Decision,
    Ending,
    Event,
    IdempotencyKey,
    Reading,
    Scope,
    Tenant,
    Tile,
    Transaction,
    TransactionQuerySet,
    Verdict,
    id_or_none,
    new_id,
)

__all__ = [
    "HOLDS_ITS_KEY",
    "NEEDS_A_LOOK",
    "Agent",
    "AgentToken",
    "Checkpoint",
    "Cosignature",
    "Decision",
    "Delivery",
    "DeliveryState",
    "Ending",
    "Event",
    "IdempotencyKey",
    "Reading",
    "Scope",
    "Tenant",
    "Tile",
    "Transaction",
    "TransactionQuerySet",
    "Verdict",
    "id_or_none",
    "new_id",
]
