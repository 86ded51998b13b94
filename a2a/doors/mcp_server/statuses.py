"""The standing of a call: a transaction, or a question, as the result of a tool or a task."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from a2a import tasks
from a2a.doors.mcp_server.catalogue import ANSWER, REPLACES, WAIT
from a2a.errors import TaskNotFound
from a2a.models import Task
from a2a.states import TaskState
from ledger.agents import Caller
from ledger.api import terms_of, versioned, visible_to
from ledger.api.http import address_of
from ledger.contracts import RequiredApprover
from ledger.errors import LedgerError, NotFound, PlanRefused
from ledger.models import Transaction, id_or_none
from ledger.states import Ending
from ledger.tools import acts_itself
from ledger.transactions import (
    FOR_ITS_AGENT,
    NOT_FINAL,
    OutcomeForAgent,
    OutcomeKind,
    coordinator,
    outcome_of,
    refused_by_tool,
)

Json = dict[str, Any]
SUCCEEDED = OutcomeKind.SUCCEEDED
# Statuses of refusals after which another attempt, perhaps a corrected one, makes sense.
MAY_BE_RETRIED = frozenset({409, 422, 429, 502, 503, 504})
ANSWERED = "It was answered."
UNANSWERED = "It waits for a person's answer. Do not ask again: wait for it."
# Polls of a task: often while it is young, seldom once it waits for hours.
POLL_MS, SELDOM_MS = 2_000, 30_000


@dataclass(frozen=True, slots=True)
class Standing:
    """``etag`` changes whenever the subject does. ``needs_nobody``: no person has to act."""

    subject: UUID
    is_task: bool
    kind: OutcomeKind
    sentence: str
    body: Json
    etag: str
    created_at: datetime
    updated_at: datetime
    retain_until: datetime
    needs_nobody: bool = False
    is_withdrawn_by_agent: bool = False
    # There is nothing more to wait for until the agent itself acts, or answers a question.
    waits_for_agent: bool = False

    @property
    def is_final(self) -> bool:
        return self.kind not in NOT_FINAL

    @property
    def has_news(self) -> bool:
        """True if waiting longer would bring nothing."""
        return self.is_final or self.waits_for_agent

    def as_result(self, *, wanted: OutcomeKind = SUCCEEDED) -> Json:
        """The result of ``tools/call``: what waits is no error, only another end than wanted is."""
        body = self.body
        if not self.is_final:
            name = "task_id" if self.is_task else "transaction_id"
            wait = f"Call {WAIT} with this {name}. Do not call the tool again."
            body = {"next": wait, **body}
        return result_of(body, is_error=self.is_final and self.kind != wanted)

    def as_task(self) -> Json:
        """The task that stands for the call; one that waits for people is ``working``."""
        return {
            "taskId": str(self.subject),
            "status": self._task_status(),
            "statusMessage": self.sentence,
            "createdAt": self.created_at.isoformat(),
            "lastUpdatedAt": self.updated_at.isoformat(),
            "ttlMs": _milliseconds(self.created_at, self.retain_until),
            "pollIntervalMs": self._poll_interval(),
        }

    def _task_status(self) -> str:
        if not self.is_final:
            return "working"
        return "cancelled" if self.is_withdrawn_by_agent else "completed"

    def _poll_interval(self) -> int:
        age = _milliseconds(self.created_at, timezone.now())
        return min(SELDOM_MS, max(POLL_MS, age // 20))


def result_of(body: Json, *, is_error: bool) -> Json:
    """A result that programs read as ``structuredContent`` and models as text."""
    return {
        "content": [{"type": "text", "text": json.dumps(body, ensure_ascii=False)}],
        "structuredContent": body,
        "isError": is_error,
    }


def refusal_of(refusal: LedgerError) -> Json:
    """A call that came to nothing, as a result that the model can act on."""
    outcome = OutcomeForAgent(
        OutcomeKind.REFUSED,
        f"{refusal.title}. {refusal.detail} {refusal.hint}",
        do_not_retry=refusal.status not in MAY_BE_RETRIED,
    )
    if isinstance(refusal, PlanRefused):
        outcome = refused_by_tool(refusal.detail)
    body = {
        "status": outcome.kind.value,
        **outcome.as_json(),
        "code": refusal.code,
        **refusal.extra,
    }
    return result_of(json.loads(json.dumps(body, default=str)), is_error=True)


def standing_of(caller: Caller, subject: Any) -> Standing:
    """The standing of a transaction or task that the caller may see. Raises ``NotFound``."""
    pk = id_or_none(subject) if isinstance(subject, str) else subject
    if not isinstance(pk, UUID):
        raise NotFound()
    row = visible_to(caller).prefetch_related("decisions").filter(pk=pk).first()
    if row is not None:
        return of_transaction(row)
    try:
        return of_task(tasks.visible(caller, pk))
    except TaskNotFound:
        raise NotFound() from None


def of_transaction(row: Transaction) -> Standing:
    outcome = outcome_of(row, acts_itself=acts_itself(row))
    waits_for_agent = acts_itself(row) and row.state in FOR_ITS_AGENT
    last = row.ended_at or row.decided_at or row.created_at
    body = {
        "status": outcome.kind.value,
        **outcome.as_json(),
        "transaction_id": str(row.pk),
        "tool": row.tool,
        "summary": row.action_summary,
        "terms": terms_of(row),
        "receipt": row.receipt,
        "receipt_url": row.receipt_url,
        "result": row.result,
        "reason": row.ending_reason,
        "decided_by": [vote.principal_name for vote in row.decisions.all()],
        "grants": [vote.grant_id for vote in row.decisions.all() if vote.grant_id],
        "expires_at": row.expires_at.isoformat(),
        "url": address_of(f"/transactions/{row.pk}/"),
    }
    told = coordinator.requests_to_agent(row)
    body |= told
    sentence = outcome.sentence
    if question := told["question"]:
        sentence = f"{sentence} The question: {question['text']}"
        body["next"] = f"Call {ANSWER} with this transaction_id and your answer as text."
    if row.ending == Ending.SENT_BACK:
        body["next"] = f"Call {row.tool} again as it is asked for, with {REPLACES}: {row.pk}."
    if waits_for_agent:
        body["next"] = outcome.sentence
        body["permit"] = address_of(f"/api/v1/transactions/{row.pk}/permit")
    return Standing(
        row.pk,
        False,
        outcome.kind,
        f"{sentence} {body['url']}",
        body,
        versioned(row)[1],
        row.created_at,
        last,
        row.retain_until,
        needs_nobody=row.required_approver == RequiredApprover.NONE,
        is_withdrawn_by_agent=row.ending == Ending.CANCELED,
        waits_for_agent=waits_for_agent or question is not None,
    )


def of_task(task: Task) -> Standing:
    kind, sentence = _outcome_of_task(task)
    body = {
        # First: whoever answered says nothing of how the question stands.
        **(task.result if isinstance(task.result, dict) else {}),
        "status": kind.value,
        "kind": kind.value,
        "is_final": kind not in NOT_FINAL,
        "sentence": sentence,
        "do_not_retry": True,
        "task_id": str(task.pk),
        "reason": task.reason,
        "url": address_of(f"/tasks/{task.pk}/"),
    }
    return Standing(
        task.pk,
        True,
        kind,
        sentence,
        body,
        task.updated_at.isoformat(),
        task.created_at,
        task.updated_at,
        task.retain_until or task.updated_at,
        is_withdrawn_by_agent=task.state == TaskState.CANCELED,
    )


def _outcome_of_task(task: Task) -> tuple[OutcomeKind, str]:
    if not task.is_final:
        return OutcomeKind.PENDING, UNANSWERED
    if task.state == TaskState.COMPLETED:
        return SUCCEEDED, ANSWERED
    kind = OutcomeKind.WITHDRAWN if task.state == TaskState.CANCELED else OutcomeKind.REFUSED
    return kind, f"It came to nothing: {task.reason or task.get_state_display()}"


def _milliseconds(start: datetime, end: datetime) -> int:
    return max(0, int((end - start).total_seconds() * 1000))
