"""How the desk writes money, time and ids."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a.models import Question, QuestionState, Task
from a2a.states import TaskState
from approvals import policies
from approvals.metrics import Metric
from ledger.models import Event, Transaction
from ledger.results import web_address
from ledger.states import FINAL, State

register = template.Library()

ICON_OF = {
    State.PREPARED: "clock",
    State.REFUSED: "ban",
    State.APPROVED: "check",
    State.COMMITTING: "loader",
    State.COMMITTED: "circle-check",
    State.IN_DOUBT: "circle-help",
    State.ROLLING_BACK: "undo-2",
    State.ABORTED: "circle-x",
    State.FAILED: "triangle-alert",
    State.COMPENSATING: "undo-2",
    State.COMPENSATED: "undo-2",
}
TONE_OF = {
    State.COMMITTED: "good",
    State.IN_DOUBT: "bad",
    State.FAILED: "bad",
    State.PREPARED: "soon",
}
SAID_OF = {
    "prepared": "Proposed",
    "refused": "Refused by the tool",
    "approval_recorded": "Approved; another approver is needed",
    "approved": "Approved",
    "rejected": "Rejected",
    "expired": "Expired: nobody decided in time",
    "canceled": "Canceled by the agent",
    "claimed": "A worker began",
    "hold_lapsed": "What was held lapsed",
    "committed": "Committed",
    "failed": "Failed; nothing happened",
    "fell_in_doubt": "Outcome not known",
    "retried": "Run again with the same operation key",
    "retry_ordered": "Another run was ordered",
    "disproved": "Found that nothing happened",
    "aborted": "Everything held was let go of",
    "failure_settled": "Everything held was let go of",
    "compensation_started": "Compensation asked for",
    "compensated": "Compensated",
    "task_submitted": "Submitted",
    "task_rejected": "Rejected before it began",
    "task_claimed": "Taken up",
    "task_put_back": "Put back for another worker",
    "task_handed_over": "Handed over",
    "task_progressed": "Progress",
    "task_artifact_added": "Artifact added",
    "task_message_added": "Message added",
    "task_asked": "Asked a question",
    "task_answered": "Answered",
    "task_question_lapsed": "Canceled: nobody answered in time",
    "task_awaits_sign_off": "Waits for sign-off",
    "task_resumed": "Signed off; goes on",
    "task_completed": "Completed",
    "task_failed": "Failed",
    "task_canceled": "Canceled",
}
TASK_ICON = {
    TaskState.SUBMITTED: "clock",
    TaskState.WORKING: "loader",
    TaskState.INPUT_REQUIRED: "message-circle-question",
    TaskState.AUTH_REQUIRED: "clock",
    TaskState.COMPLETED: "circle-check",
    TaskState.FAILED: "triangle-alert",
    TaskState.CANCELED: "circle-x",
    TaskState.REJECTED: "ban",
}
TASK_TONE = {
    TaskState.COMPLETED: "good",
    TaskState.FAILED: "bad",
    TaskState.REJECTED: "bad",
    TaskState.INPUT_REQUIRED: "soon",
    TaskState.AUTH_REQUIRED: "soon",
}


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """A symbol of the sprite; decorative unless it has a label."""
    if label:
        return format_html(
            '<svg class="icon" role="img" aria-label="{}"><use href="/static/img/icons.svg#{}"/>'
            "</svg>",
            label,
            name,
        )
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="/static/img/icons.svg#{}"/></svg>', name
    )


@register.filter
def state_icon(row: Transaction) -> str:
    return ICON_OF[State(row.state)]


@register.filter
def tone(row: Transaction) -> str:
    return TONE_OF.get(State(row.state), "calm")


@register.filter
def money(row: Transaction) -> str:
    return policies.money(row)


@register.filter
def risk_icon(row: Transaction) -> str:
    return "shield-alert" if row.risk_level in {"HIGH", "CRITICAL"} else "shield"


@register.filter
def consequence_icon(row: Transaction) -> str:
    return "ban" if row.consequence_level == "IRREVERSIBLE" else "undo-2"


@register.filter
def said(event: Event) -> str:
    if event.kind == "task_progressed":
        return _progress(json.loads(event.details))
    return SAID_OF.get(event.kind, event.kind.replace("_", " ").capitalize())


def _progress(details: dict[str, Any]) -> str:
    """``Progress: reading, 40 %, 8 of 47 transcripts``."""
    percent = details.get("percent")
    facts = [details.get("stage"), f"{percent} %" if percent is not None else "",
             details.get("message")]  # fmt: skip
    return f"Progress: {', '.join(str(fact) for fact in facts if fact)[:200]}"


@register.filter
def what_became(row: Transaction) -> str:
    """``Approved by Bob Tanaka in the web`` for a row that was decided elsewhere."""
    decisive = [
        e for e in row.events.all() if e.kind in {"approved", "rejected", "expired", "canceled"}
    ]
    if not decisive:
        return str(row.get_state_display()).capitalize()
    event = max(decisive, key=lambda event: event.seq)
    if event.kind == "expired":
        return "Expired; nobody decided in time"
    return f"{event.kind.capitalize()} by {event.principal_name} {via(event)}"


@register.filter
def task_icon(task: Task) -> str:
    return TASK_ICON[TaskState(task.state)]


@register.filter
def task_tone(task: Task) -> str:
    return TASK_TONE.get(TaskState(task.state), "calm")


@register.filter
def what_became_of_it(question: Question) -> str:
    """``Answered by Bob Tanaka on the desk``, for a row that somebody else dealt with."""
    if question.state == QuestionState.ANSWERED:
        return f"Answered by {question.answered_by_name} {surface(question.answered_via)}"
    return str(question.get_state_display()).capitalize()


@register.filter
def lookup(said: Any, name: str) -> str:
    """What a form that is shown again was sent with."""
    return str(said.get(name, "")) if said else ""


@register.filter
def pretty(value: Any) -> str:
    """A value as people read it: text as it is, the rest as indented JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and len(value) == 1:
        (only,) = value.values()
        return pretty(only)
    return json.dumps(value, ensure_ascii=False, indent=2)[:20_000]


@register.filter
def is_web_address(value: Any) -> bool:
    return bool(web_address(value))


@register.filter
def via(event: Event) -> str:
    return surface(event.via)


@register.filter
def surface(via: str) -> str:
    return {
        "web": "on the desk",
        "slack": "in Slack",
        "api": "by REST",
        "a2a": "by A2A",
        "admin": "in the admin",
        "system": "automatically",
    }.get(via, via)


@register.filter
def is_final(row: Transaction) -> bool:
    return row.state in FINAL


@register.filter
def span(seconds: float) -> str:
    """``900`` as ``15 min``."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@register.filter
def amount(metrics: dict[str, Metric], said: str) -> float:
    """``metrics|amount:"assent_transactions state=prepared"``."""
    name, _, label = said.partition(" ")
    key, _, value = label.partition("=")
    return metrics[name].of(**{key: value}) if name in metrics else 0.0


@register.filter
def figure(metrics: dict[str, Metric], said: str) -> int:
    return round(amount(metrics, said))


@register.filter
def rounded(seconds: float) -> str:
    """``0.004`` as ``4 ms``, ``75`` as ``75 s``, ``5400`` as ``1.5 h``."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60 * 2, "min")):
        if seconds >= size:
            per = 60 if unit == "min" else size
            return f"{seconds / per:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


@register.filter
def plain(value: Any) -> str:
    """A value of a payload, as a person would write it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


@register.simple_tag
def moment(at: datetime | None, counts_down: bool = False) -> SafeString | str:
    """A time as people say it, with the exact instant on hover; the page keeps it current."""
    if at is None:
        return ""
    kind = "until" if counts_down else "since"
    return format_html(
        '<time datetime="{}" title="{}" data-{}>{}</time>',
        at.isoformat(),
        at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        kind,
        left(at - timezone.now()) if counts_down else ago(timezone.now() - at),
    )


def left(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    if seconds <= 0:
        return "time is up"
    if seconds < 3600:
        return f"{seconds // 60}:{seconds % 60:02d} left"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} left"


def ago(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    if seconds < 60:
        return "just now"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "just now"
