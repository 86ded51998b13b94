"""The tables of the ledger. Read them anywhere; write them through the verbs."""

from __future__ import annotations

from ledger.models.agents import Agent, AgentToken, Scope, Tenant
from ledger.models.bindings import Binding, BoundCall
from ledger.models.decisions import Decision, Verdict
from ledger.models.deliveries import Delivery, DeliveryState
from ledger.models.events import Event
from ledger.models.idempotency import IdempotencyKey
from ledger.models.ids import id_or_none, new_id
from ledger.models.limits import LimitRefusal
from ledger.models.log import Checkpoint, Cosignature, Tile
from ledger.models.mcp import McpUpstream, UpstreamTool, UpstreamToolState
from ledger.models.permits import Permit
from ledger.models.plain_rows import COLUMNS, TransactionRow, new_row, row_of
from ledger.models.policies import PolicyDocument, paragraphs_of
from ledger.models.readings import Reading
from ledger.models.reviews import Agreement, Review, ReviewVerdict
from ledger.models.search import SearchTerm
from ledger.models.sweepers import SweeperLease
from ledger.models.tools import (
    Credential,
    CredentialKind,
    RegisteredTool,
    ToolChange,
    ToolChangeState,
    ToolVersion,
)
from ledger.models.transactions import HOLDS_ITS_KEY, NEEDS_A_LOOK, Transaction, TransactionQuerySet
from ledger.models.usage import SubjectUse, UsageCursor, UsageDay, UsageDecider, UsageHour
from ledger.states import Ending

__all__ = [
    "COLUMNS",
    "HOLDS_ITS_KEY",
    "NEEDS_A_LOOK",
    "Agent",
    "AgentToken",
    "Agreement",
    "Binding",
    "BoundCall",
    "Checkpoint",
    "Cosignature",
    "Credential",
    "CredentialKind",
    "Decision",
    "Delivery",
    "DeliveryState",
    "Ending",
    "Event",
    "IdempotencyKey",
    "LimitRefusal",
    "McpUpstream",
    "Permit",
    "PolicyDocument",
    "Reading",
    "RegisteredTool",
    "Review",
    "ReviewVerdict",
    "Scope",
    "SearchTerm",
    "SubjectUse",
    "SweeperLease",
    "Tenant",
    "Tile",
    "ToolChange",
    "ToolChangeState",
    "ToolVersion",
    "Transaction",
    "TransactionQuerySet",
    "TransactionRow",
    "UpstreamTool",
    "UpstreamToolState",
    "UsageCursor",
    "UsageDay",
    "UsageDecider",
    "UsageHour",
    "Verdict",
    "id_or_none",
    "new_id",
    "new_row",
    "paragraphs_of",
    "row_of",
]
