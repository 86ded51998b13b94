"""What is said in the thread below a message: who decided what, and what came of it."""

from __future__ import annotations

from typing import Any

from slack_sdk.models.blocks import Block, SectionBlock

from a2a.states import TaskEventKind
from approvals.desk import labels, policies
from approvals.models import SlackMessage
from approvals.slack.rendering.text import (
    bold,
    escaped,
    fixed,
    marked,
    moment,
    quoted,
    rich,
    shortened,
    words as said,
)
from ledger.models import Event
from ledger.principals import Principal
from ledger.states import EventKind

Note = tuple[str, list[dict[str, Any]]]

SAID = frozenset(
    {
        EventKind.APPROVAL_RECORDED,
        EventKind.APPROVED,
        EventKind.REJECTED,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.HOLD_LAPSED,
        EventKind.COMMITTED,
        EventKind.FAILED,
        EventKind.FELL_IN_DOUBT,
        EventKind.RETRIED,
        EventKind.DISPROVED,
        EventKind.COMPENSATION_STARTED,
        EventKind.COMPENSATED,
        TaskEventKind.ANSWERED,
        TaskEventKind.QUESTION_LAPSED,
        TaskEventKind.COMPLETED,
        TaskEventKind.FAILED,
        TaskEventKind.CANCELED,
    }
)
# Whose doing it is goes without saying.
BY_NOBODY = frozenset(
    {
        EventKind.COMMITTED,
        EventKind.EXPIRED,
        EventKind.FELL_IN_DOUBT,
        EventKind.RETRIED,
        EventKind.FAILED,
        EventKind.DISPROVED,
    }
)


def is_said(event: Event) -> bool:
    return event.kind in SAID


def note(event: Event) -> Note:
    """As text for notifications, and as blocks."""
    what, who = labels.said(event), ""
    if event.kind not in BY_NOBODY and not Principal.parse(event.principal).is_system:
        who = f"{event.principal_name} {labels.via(event)}"
    parts = [bold(what), *([said(f" by {who}")] if who else [])]
    row = event.transaction
    if event.kind == EventKind.COMMITTED and row is not None:
        parts += [said(" · receipt "), fixed(shortened(row.receipt, 200))]
    blocks: list[Block] = [rich(*parts)]
    if why := _words_of(event):
        blocks.append(quoted(*why))
    told = f"{what} by {who}" if who else what
    if why:
        told += f": {why[1]}"
    return escaped(told), [block.to_dict() for block in blocks]


def _words_of(event: Event) -> tuple[str, str] | None:
    """Somebody's own words that belong to the event."""
    if event.kind == TaskEventKind.ANSWERED:
        return "Answer", event.reason or "-"
    if event.kind == TaskEventKind.COMPLETED:
        return None
    if event.reason:
        return "Reason", event.reason
    if event.kind == EventKind.FAILED and event.transaction is not None and event.transaction.error:
        return "What the tool said", event.transaction.error
    return None


def reminder(copy: SlackMessage) -> Note:
    row = copy.transaction
    assert row is not None
    missing = policies.still_missing(row)
    who = "somebody" if missing <= 1 else f"{missing} more people"
    blocks = [rich(bold("Still waits for sign-off"), said(f" by {who}. It lapses "),
                   moment(row.expires_at))]  # fmt: skip
    text = f"Still waits for sign-off: {row.action_summary}"
    return escaped(text), [block.to_dict() for block in blocks]


def escalated(channel: str) -> Note:
    text = f"Nobody acted in time; it was put before <#{channel}> as well."
    return escaped("Nobody acted in time; it was escalated."), [
        SectionBlock(text=marked(text)).to_dict()
    ]
