"""The tables of the ledger. Read them anywhere; write them through the verbs."""

from __future__ import annotations

from ledger.models.agents import Agent, AgentToken, Owner, Scope, Tenant
from ledger.models.decisions import (
    Agreement,
    Decision,
    Evidence,
    PolicyDocument,
    Review,
    ReviewVerdict,
    Verdict,
    contents_of,
    paragraphs_of,
)
from ledger.models.events import Checkpoint, Cosignature, Delivery, DeliveryState, Event, Tile
from ledger.models.four_eyes import ChangeRequest, RequestState
from ledger.models.ids import id_or_none, new_id
from ledger.models.limits import (
    STANDING_SQL,
    Brake,
    BrakeQuerySet,
    LimitRefusal,
    SweeperLease,
    clock_runs,
    may_begin,
    not_stopped,
)
from ledger.models.permits import Permit
from ledger.models.plain_rows import COLUMNS, TransactionRow, new_row, row_of
from ledger.models.rules import IN_WORK, Group, GroupMember, RuleSet, RuleSetState
from ledger.models.tools import (
    Credential,
    CredentialKind,
    McpUpstream,
    RegisteredTool,
    SilentAddress,
    ToolVersion,
    UpstreamTool,
    UpstreamToolState,
    Watched,
)
from ledger.models.transactions import (
    HOLDS_ITS_KEY,
    NEEDS_A_LOOK,
    IdempotencyKey,
    Transaction,
    TransactionQuerySet,
)
from ledger.models.usage import (
    Reading,
    SearchTerm,
    SubjectUse,
    UsageCursor,
    UsageDay,
    UsageDecider,
    UsageHour,
)
from ledger.states import Ending

__all__ = [
    "COLUMNS",
    "HOLDS_ITS_KEY",
    "IN_WORK",
    "NEEDS_A_LOOK",
    "STANDING_SQL",
    "Agent",
    "AgentToken",
    "Agreement",
    "Brake",
    "BrakeQuerySet",
    "ChangeRequest",
    "Checkpoint",
    "Cosignature",
    "Credential",
    "CredentialKind",
    "Decision",
    "Delivery",
    "DeliveryState",
    "Ending",
    "Event",
    "Evidence",
    "Group",
    "GroupMember",
    "IdempotencyKey",
    "LimitRefusal",
    "McpUpstream",
    "Owner",
    "Permit",
    "PolicyDocument",
    "Reading",
    "RegisteredTool",
    "RequestState",
    "Review",
    "ReviewVerdict",
    "RuleSet",
    "RuleSetState",
    "Scope",
    "SearchTerm",
    "SilentAddress",
    "SubjectUse",
    "SweeperLease",
    "Tenant",
    "Tile",
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
    "Watched",
    "clock_runs",
    "contents_of",
    "id_or_none",
    "may_begin",
    "new_id",
    "new_row",
    "not_stopped",
    "paragraphs_of",
    "row_of",
]
