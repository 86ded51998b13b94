"""The JSON shapes of tasks in the plain dialect and for workers.

Times are RFC 3339; durations are seconds, ``…_s``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Field, Schema

from a2a.validation import Cost
from ledger.api import ChangeOut, SaidOut, TokenOfIntent
from ledger.api.http import In, OutcomeOut, Reason, Text200

Parts = Annotated[list[Annotated[dict[str, Any], Field(min_length=1)]], Field(max_length=100)]
Answerer = Annotated[str, Field(min_length=1, max_length=150)]
Json = Any  # any JSON value; a union of six types helps no reader of the document


class PushIn(In):
    """The address that changes of the task are pushed to, as push notifications of A2A."""

    url: str = Field(max_length=2000)
    token: Annotated[str, Field(max_length=2000)] = Field(
        "", description="Comes back in the header X-A2A-Notification-Token."
    )


class TaskIn(In):
    """A task to submit. Send an Idempotency-Key, and the same one with every repetition."""

    skill: str = Field(max_length=100, examples=["consolidate"])
    input: Json = Field(None, description="As the JSON Schema of the skill says.")
    context_id: Annotated[str, Field(max_length=100)] = ""
    metadata: dict[str, Any] = {}
    envelope: dict[str, Any] | None = Field(
        None, description="Needed across tenants and for delegated tasks; see docs/a2a.md."
    )
    card_version: Annotated[str, Field(max_length=50)] = Field(
        "", description="Version of the agent card that the request was made from."
    )
    revises: UUID | None = Field(
        None, description="An ended task of the same skill, of which this one is a revision."
    )
    change_request: Annotated[str, Field(max_length=10_000)] = Field(
        "", description="What the revision is to change, in words."
    )
    may_answer: Annotated[list[Answerer], Field(max_length=20)] = Field(
        [], description="Who answers its questions where the worker names nobody."
    )
    push: PushIn | None = None


class AnswerIn(In):
    answer: Json


class TaskCancelIn(In):
    reason: Reason = ""


class QuestionOut(Schema):
    question_id: UUID
    task_id: UUID
    state: Literal["open", "answered", "lapsed", "withdrawn"]
    text: str
    description: str = Field(description="The same as `text`, for clients that read this name.")
    form: dict[str, Any] = Field(description="JSON Schema of the answer; empty: any text.")
    evidence: list[dict[str, Any]]
    may_answer: list[str]
    expires_at: datetime
    expires_in: float = Field(description="Seconds, by the server's clock.")
    answer: Any = None
    answered_by: str = ""
    answered_via: str = ""
    desk: str = Field(description="Where people answer.")


class ReasonOut(Schema):
    code: str
    detail: str
    errors: list[dict[str, Any]] = []


class ProgressOut(Schema):
    stage: str
    percent: int | None
    message: str


class ArtifactOut(Schema):
    artifact_id: str
    name: str
    description: str
    parts: list[dict[str, Any]]
    is_complete: bool


class TaskLinks(Schema):
    self: str
    resolve: str = Field(description="POST the answer to its open question.")
    cancel: str
    desk: str = Field(description="Where people see it.")
    transaction: str | None = Field(description="The transaction that it proposed.")


class ProposedOut(OutcomeOut):
    """The outcome of a transaction that is not the subject itself."""

    transaction_id: UUID


class ProposalOut(Schema):
    """The changes of people to a proposal, and what they want of the agent that made it."""

    transaction_id: UUID
    revision: int
    changed: list[ChangeOut]
    question: SaidOut | None = Field(description="The same as `input_required`.")
    change_request: SaidOut | None = Field(description="Why it was sent back.")
    replaces: UUID | None
    replaced_by: UUID | None


class WarningOut(Schema):
    """A warning: this request was accepted, the next one like it may be refused."""

    code: Literal["card_outdated"]
    detail: str
    hint: str


class TaskOut(Schema):
    """One task, as it is now."""

    task_id: UUID
    state: Literal[
        "submitted",
        "working",
        "input-required",
        "completed",
        "failed",
        "canceled",
        "rejected",
    ]
    skill: str
    result: Any = None
    reason: ReasonOut | None = Field(description="Why it failed or was canceled or rejected.")
    cost: Cost | None = Field(description="What its worker says that it cost.")
    outcome: ProposedOut | None = Field(description="Of the transaction that it proposed.")
    proposal: ProposalOut | None = Field(description="Of the same, if the agent proposed it.")
    token_of_intent: TokenOfIntent | None = Field(description="Of the same; its desk link too.")
    input_required: QuestionOut | None
    progress: ProgressOut
    artifacts: list[ArtifactOut]
    context_id: str
    submitted_by: str
    owner: str
    parent_task: UUID | None
    depth: int
    revises: UUID | None = Field(description="The task that this one is a revision of.")
    revision: int = Field(description="0 for a task that revises none.")
    trace_id: str
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    expires_at: datetime | None
    retry_after_s: int | None = Field(description="Ask again no sooner; null when it has ended.")
    links: TaskLinks
    warnings: list[WarningOut] = []


class TaskPage(Schema):
    items: list[TaskOut]
    next_cursor: str | None


class TaskEventOut(Schema):
    seq: int
    kind: str
    from_state: str
    to_state: str
    principal: str
    via: str
    reason: str
    details: dict[str, Any]
    at: datetime


class ClaimIn(In):
    skills: Annotated[list[Text200], Field(max_length=100)] = Field(
        [], description="Ids of the agent's own skills; empty: any of them."
    )
    wait_s: Annotated[float, Field(ge=0, le=60)] = 0


class MessageOut(Schema):
    """A message of the client or of a worker, as it was sent."""

    message_id: str
    role: Literal["user", "agent"]
    principal: str
    parts: list[dict[str, Any]]
    metadata: dict[str, Any]
    at: datetime


class MessagePage(Schema):
    items: list[MessageOut] = Field(description="Oldest first.")
    next_cursor: str = Field(description="Send as ?cursor= to read only what comes after these.")


class RevisedOut(Schema):
    """The ended task that a claimed one revises: the base to start from."""

    task_id: UUID
    state: str
    input: Any
    result: Any
    reason: ReasonOut | None = Field(description="Why it did not complete.")
    artifacts: list[ArtifactOut] = Field(description="1 MiB of JSON at most.")
    left_out: list[str] = Field(description="Ids of further artifacts; GET /tasks/{task_id}.")


class WorkOut(Schema):
    """A claimed task. Send its fencing token with every request about it."""

    task_id: UUID
    fencing_token: int
    lease_s: float = Field(description="Send a heartbeat at least three times as often.")
    lease_expires_at: datetime | None
    attempt: int
    skill: str
    input: Any
    messages: list[MessageOut]
    messages_cursor: str = Field(description="GET /work/{task_id}/messages goes on from here.")
    answers: list[QuestionOut] = Field(description="Questions that were answered before.")
    revises: RevisedOut | None = Field(description="The task that this one revises.")
    change_request: str = Field(description="What the revision is to change; empty: see `input`.")
    context_id: str
    trace_id: str
    depth: int
    submitted_by: str
    expires_at: datetime | None


class HeldIn(In):
    fencing_token: Annotated[int, Field(ge=1, le=2_147_483_647)]


class ProgressIn(HeldIn):
    stage: Text200 = ""
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    message: Reason = ""


class ArtifactIn(HeldIn):
    artifact_id: str = Field(min_length=1, max_length=200)
    name: Text200 = ""
    description: Reason = ""
    parts: Parts = Field(min_length=1, description="A2A parts: {text}, {data}, {url} or {raw}.")
    append: bool = False
    is_complete: bool = True


class AskIn(HeldIn):
    text: str = Field(min_length=1, max_length=10_000)
    form: dict[str, Any] = Field({}, description="JSON Schema of the answer.")
    evidence: Parts = []
    may_answer: Annotated[list[Answerer], Field(max_length=20)] = []
    ttl_s: Annotated[float, Field(gt=0, le=2_592_000)] | None = None


class CompleteIn(HeldIn):
    result: Json = None
    message: Reason = ""
    cost: Cost | None = None


class FailIn(HeldIn):
    reason: str = Field(min_length=1, max_length=2000)
    code: Annotated[str, Field(max_length=100)] = ""
    cost: Cost | None = None


class DeclineIn(HeldIn):
    reason: str = Field(min_length=1, max_length=2000)
    code: Annotated[str, Field(max_length=100)] = ""


class HandOverIn(HeldIn):
    skill: str = Field(min_length=1, max_length=100)
    reason: Reason = ""


class HeldOut(Schema):
    task_id: UUID
    state: str
    lease_expires_at: datetime | None
    messages: int = Field(
        description="How many messages there are; GET /work/{task_id}/messages reads them."
    )
