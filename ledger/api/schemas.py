"""The JSON shapes of the REST interface. Times are RFC 3339; durations are seconds, ``…_s``."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from ninja import Field, Schema
from pydantic import JsonValue, create_model

from ledger.agents import POLICY_LABEL
from ledger.api.http import In, OutcomeOut, Reason, Text200
from ledger.api.terms import TermsOut
from ledger.contracts import published_types

LedgerStatus = Literal[
    "planned",
    "in_progress",
    "succeeded",
    "handed_over",
    "failed",
    "compensating",
    "compensated",
]


class ProposalIn(In):
    """What the agent wants to happen."""

    tool: str = Field(max_length=100, examples=["refund_customer"])
    arguments: dict[str, Any] = Field(
        description="As the JSON Schema of the tool says (GET /tools).",
        examples=[{"payment_id": "pay_1042", "amount": "48.20", "reason": "damaged"}],
    )
    reason: Reason = Field("", description="Why, in the agent's own words; the approver reads it.")
    run_id: Text200 = ""
    step_id: Text200 = ""
    replaces: UUID | None = Field(
        None, description="The transaction that was sent back, where this follows it."
    )
    ttl_s: Annotated[int, Field(gt=0, le=31_536_000)] | None = Field(
        None, description="Seconds to wait for sign-off; the contract's own when absent."
    )


class SayIn(In):
    text: str = Field(min_length=1, max_length=2000, description="People read it.")


class CancelIn(In):
    reason: Reason = ""


class CancelByKeyIn(In):
    idempotency_key: str = Field(min_length=1, max_length=255)
    reason: Reason = ""


class PolicyIn(In):
    """The policy that a supervisor decided by, and the paragraphs that it used."""

    sha256: str = Field(
        pattern="^[0-9a-f]{64}$", description="Of a text that POST /policies keeps."
    )
    paragraphs: list[Annotated[str, Field(min_length=1, max_length=20)]] = Field(
        min_length=1, max_length=50, examples=[["2", "4.1"]]
    )


class ApproveIn(In):
    """A supervisor's yes names what it saw."""

    intent_digest: str = Field(min_length=64, max_length=64)
    reason: Reason = ""
    policy: PolicyIn | None = None


class RejectIn(In):
    intent_digest: str = Field(min_length=64, max_length=64)
    reason: str = Field(min_length=1, max_length=2000)
    policy: PolicyIn | None = None


class PassOnIn(In):
    intent_digest: str = Field(min_length=64, max_length=64)
    reason: str = Field(min_length=1, max_length=2000, description="People read it.")
    policy: PolicyIn | None = None


class AdviceIn(In):
    """The decision that a supervisor would make, where people make it."""

    intent_digest: str = Field(min_length=64, max_length=64)
    recommends: Literal["approve", "reject"]
    reason: str = Field(min_length=1, max_length=2000, description="People read it.")
    policy: PolicyIn | None = None


LABEL: dict[str, JsonValue] = {"pattern": f"^{POLICY_LABEL.pattern}$"}


class PolicyDocumentIn(In):
    name: str = Field(min_length=1, max_length=100, json_schema_extra=LABEL)
    version: str = Field(min_length=1, max_length=40, json_schema_extra=LABEL)
    text: str = Field(min_length=1, max_length=65536, description="Markdown, at most 64 KiB.")


class PolicyDocumentOut(Schema):
    sha256: str
    name: str
    version: str
    text: str
    paragraphs: list[str] = Field(description="The numbers that a decision may cite.")
    added_by: str
    at: datetime
    desk: str = Field(description="Where people read it.")


class Money(Schema):
    amount: Decimal = Field(description="In major units.")
    currency: str = Field(description="ISO 4217.")


class Links(Schema):
    self: str
    wait: str = Field(description="Long-poll: answers as soon as something changes.")
    desk: str = Field(description="Where people decide.")
    permit: str | None = Field(
        None, description="Only where its agent carries it out itself and may do so now: POST."
    )


class Standing(Schema):
    """How the transaction stands today, beside the answer of then."""

    status: str
    ledger_status: LedgerStatus
    receipt: str
    ending_reason: str
    ended_at: datetime | None
    outcome: OutcomeOut


class TokenOfIntent(Schema):
    """A prepared transaction, waiting for sign-off."""

    status: str
    transaction_id: UUID
    action_summary: str
    warnings: list[str]
    financial_impact: Money | None
    consequence_level: str
    expires_at: datetime
    expires_in: float = Field(description="Seconds, by the ledger's clock.")
    intent_digest: str
    terms: TermsOut | None = Field(None, description="Who has to sign, and how.")
    duplicate_of: UUID | None = None
    content_erased_at: datetime | None = Field(
        None,
        description="When retention erased its content; texts, arguments and result are empty.",
    )
    links: Links
    outcome: OutcomeOut


class Prepared(TokenOfIntent):
    """The Token of Intent; for a replayed key, as it was given then, and how it stands `now`."""

    now: Standing | None = Field(None, description="Only where Idempotent-Replayed is `true`.")


class PolicyOut(Schema):
    name: str
    version: str
    sha256: str
    paragraphs: list[str]


class DecisionOut(Schema):
    verdict: str = Field(description="approve, reject or pass_on.")
    principal: str
    principal_name: str
    via: str
    reason: str
    at: datetime
    policy: PolicyOut | None = Field(None, description="What a supervisor decided by.")
    grant: int | None = Field(None, description="That by which somebody signed in advance.")


class EvidenceOut(Schema):
    """One piece that people are shown beside the plan; the intent digest covers these members."""

    name: str
    media_type: str
    sha256: str = Field(description="Of the content, which agents are not given.")


class _Changed(Schema):
    """One value that people or the tool changed since it was proposed."""

    path: str = Field(examples=["arguments.amount"])


# With members that no class body can name; type checkers cannot follow.
if TYPE_CHECKING:
    ChangeOut = _Changed
else:
    ChangeOut = create_model(
        "ChangeOut",
        __base__=_Changed,
        __doc__=_Changed.__doc__,
        __module__=__name__,
        **{"from": (JsonValue, ...), "to": (JsonValue, ...)},
    )


class SaidOut(Schema):
    """Words of somebody who decides, to the agent."""

    text: str
    by: str
    at: datetime


class TransactionOut(TokenOfIntent):
    """One transaction, as it is now."""

    ledger_status: LedgerStatus
    tool: str
    owner_service: str
    proposed_by: str
    stated_reason: str
    risk_level: str
    required_approver: str
    quorum: int
    required_policy: str = Field(description="SHA-256; a supervisor that approves cites it.")
    payload: dict[str, Any]
    arguments: dict[str, Any]
    evidence: list[EvidenceOut] | None
    input_hash: str
    operation_key: str
    run_id: str
    step_id: str
    trace_id: str
    created_at: datetime
    decided_at: datetime | None
    ended_at: datetime | None
    retain_until: datetime = Field(description="The content is erased soon after.")
    receipt: str
    receipt_url: str
    result: dict[str, Any] | None
    error: str
    ending: str
    ending_reason: str
    compensation_receipt: str
    decisions: list[DecisionOut]
    revision: int = Field(description="Votes count for the last one alone.")
    changed: list[ChangeOut] = Field(description="What is different from what was proposed.")
    question: SaidOut | None = Field(description="Waits for an answer: POST …/answer.")
    change_request: SaidOut | None = Field(
        description="Why it was sent back. Propose it anew, with its id as `replaces`."
    )
    replaces: UUID | None = Field(description="What was sent back, and this is proposed for.")
    replaced_by: UUID | None = Field(description="The last proposal that replaces it.")


class TransactionPage(Schema):
    items: list[TransactionOut]
    next_cursor: str | None = Field(description="Send as ?cursor= for older ones; null at the end.")


class CanceledKey(Schema):
    idempotency_key: str
    transaction: TransactionOut | None


class _AnyTool(Schema):
    """What a tool promises. Durations in seconds."""

    name: str
    description: str
    kind: Literal["transactional", "readonly"]
    owner_service: str
    input_schema: dict[str, Any]
    timeout_s: float


# Made from the fields of Contract, which type checkers cannot follow.
if TYPE_CHECKING:
    ToolOut = _AnyTool
else:
    _terms = {
        name: (kind | None, None)
        for name, kind in published_types().items()
        if name not in _AnyTool.model_fields
    }
    ToolOut = create_model(
        "ToolOut",
        __base__=_AnyTool,
        __doc__=_AnyTool.__doc__,
        __module__=__name__,
        **_terms,
        companions=(list[str], []),
    )


class PendingOut(TransactionOut):
    """One transaction that a supervisor may decide on."""

    contract: ToolOut | None = Field(None, description="What its tool promises.")


class Pending(Schema):
    items: list[PendingOut]
    policies: list[PolicyDocumentOut] = Field(
        description="The documents that contracts of these items require, as far as they are kept."
    )
    has_more: bool = Field(description="More wait: ask with `after`, or decide on these first.")


class CallIn(In):
    arguments: dict[str, Any] = {}


class CallOut(Schema):
    reading_id: UUID
    result: Any


class SealedEvent(Schema):
    """One event, each field as its seal reads it, and its place in the log."""

    id: int
    seq: int
    subject: str
    transaction_id: str
    tenant: str
    kind: str
    from_state: str
    to_state: str
    principal: str
    principal_name: str
    via: str
    reason: str
    details: str = Field(description="Canonical JSON.")
    at: str = Field(description="Microseconds since 1970.")
    previous_hash: str
    hash: str
    leaf_index: int | None
    inclusion: list[str] | None = Field(description="Base64; null while under no checkpoint.")


class DecisionRecord(Schema):
    """One subject of the log as one file; docs/audit.md says how it is verified."""

    format: str
    version: int
    how_to_verify: str
    subject: dict[str, str]
    summary: dict[str, Any] = Field(description="Who signed and what came of it.")
    events: list[SealedEvent]
    checkpoint: str | None = Field(description="C2SP signed note with its cosignatures.")
    keys: dict[str, Any] = Field(description="Verifier keys, of the log and of witnesses.")
    not_in_checkpoint: list[int] = Field(description="Ids of events that are too new.")
    next_checkpoint_within_s: int
    shown: str | None = Field(None, description="What was signed off; canonical JSON.")
    prepared: dict[str, str] | None = None
    result: str | None = None
    evidence: list[str | None] | None = Field(None, description="Contents, in base64.")
    task: dict[str, str] | None = None
    questions: list[dict[str, str]] | None = None
