"""Replies in the thread below a message: who decided what, and what came of it."""

from __future__ import annotations

import json
from typing import Any

from django.utils.translation import gettext as _, ngettext
from slack_sdk.models.blocks import Block, SectionBlock

from a2a.states import TaskEventKind
from approvals.desk import policies
from approvals.models import SlackMessage
from approvals.presentation import labels
from approvals.slack.rendering import (
    as_dicts,
    bold,
    escaped,
    fixed,
    mrkdwn,
    pieces,
    quoted,
    regular,
    regular_date,
    rich,
    shortened,
)
from ledger.models import Event
from ledger.principals import Principal
from ledger.states import EventKind

# The text for notifications, and the blocks.
ThreadReply = tuple[str, list[dict[str, Any]]]

KINDS = frozenset(
    {
        EventKind.APPROVAL_RECORDED,
        EventKind.PASSED_ON,
        EventKind.APPROVED,
        EventKind.APPROVAL_WITHDRAWN,
        EventKind.REVISED,
        EventKind.ASKED,
        EventKind.ANSWERED,
        EventKind.NOTED,
        EventKind.EXTENDED,
        EventKind.OUTDATED,
        EventKind.REJECTED,
        EventKind.SENT_BACK,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.ESCALATED,
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
# Replies about these events do not name who acted.
WITHOUT_ACTOR = frozenset(
    {
        EventKind.COMMITTED,
        EventKind.EXPIRED,
        EventKind.FELL_IN_DOUBT,
        EventKind.RETRIED,
        EventKind.FAILED,
        EventKind.DISPROVED,
    }
)


def is_posted(event: Event) -> bool:
    return event.kind in KINDS


def about(event: Event) -> ThreadReply:
    """The event and its actor; with the receipt, the reason or the answer."""
    label, actor = labels.event_label(event), ""
    if event.kind not in WITHOUT_ACTOR and not Principal.parse(event.principal).is_system:
        actor = f"{event.principal_name} {labels.via(event)}"
    template = _("{what} by {who}") if actor else "{what}"
    parts = pieces(template, what=bold(label), who=actor)
    row = event.transaction
    if event.kind == EventKind.COMMITTED and row is not None:
        receipt = fixed(shortened(row.receipt, 200))
        parts += pieces(" · " + _("receipt {receipt}"), receipt=receipt)
    if cited := labels.policy(json.loads(event.details)):
        parts.append(regular(" · " + _("by {policy}").format(policy=cited)))
    blocks: list[Block] = [rich(*parts)]
    text = template.format(what=label, who=actor)
    if quotation := _quotation_of(event):
        blocks.append(quoted(*quotation))
        text += f": {quotation[1]}"
    return escaped(text), as_dicts(blocks)


def _quotation_of(event: Event) -> tuple[str, str] | None:
    """A label, and the text of an agent, a person or a tool that belongs to the event."""
    if event.kind == TaskEventKind.ANSWERED:
        return _("Answer"), event.reason or "-"
    if event.kind == TaskEventKind.COMPLETED:
        return None
    if event.reason:
        return _("Reason"), event.reason
    if event.kind == EventKind.FAILED and event.transaction is not None and event.transaction.error:
        return _("What the tool said"), event.transaction.error
    return None


def reminder(message: SlackMessage) -> ThreadReply:
    row = message.transaction
    assert row is not None
    missing = policies.missing_approvals(row)
    template = _("{still_waits} by somebody. It lapses {when}")
    if missing > 1:
        template = ngettext(
            "{still_waits} by {count} more person. It lapses {when}",
            "{still_waits} by {count} more people. It lapses {when}",
            missing,
        )
    still_waits, when = bold(_("Still waits for sign-off")), regular_date(row.expires_at)
    block = rich(*pieces(template, still_waits=still_waits, count=str(missing), when=when))
    text = _("Still waits for sign-off: {action}").format(action=row.action_summary)
    return escaped(text), as_dicts([block])


def escalation(channel: str) -> ThreadReply:
    text = _("Nobody acted in time; it was put before {channel} as well.")
    text = text.format(channel=f"<#{channel}>")
    block = SectionBlock(text=mrkdwn(text))
    return escaped(_("Nobody acted in time; it was escalated.")), as_dicts([block])
