"""Slack as a channel of the outbox: an event becomes posts, rewrites, notes and reminders.

A delivery names its action and its message (``recipients``): ``UPDATE`` brings a message up to
date, ``REPLY`` adds the event to its thread; ``REMIND`` and ``ESCALATE`` fall due later, and act
only if nobody has decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from slack_sdk.errors import SlackApiError

from a2a.models import Question
from a2a.states import ASK, TaskEventKind
from approvals.models import SlackMessage
from approvals.slack.api import credentials
from approvals.slack.api.calls import error_of
from approvals.slack.messages import messages, recipients, routing, thread_replies
from approvals.slack.messages.recipients import CHANNEL, Action, recipient_of
from approvals.slack.messages.routing import Place
from ledger import contracts
from ledger.events.outbox import NotNow, Owed
from ledger.models import Delivery, DeliveryState, Event
from ledger.states import EventKind

ASKS = frozenset({EventKind.PREPARED, TaskEventKind.ASKED})
CHANGES = frozenset(
    {
        EventKind.APPROVAL_RECORDED,
        EventKind.APPROVED,
        EventKind.REJECTED,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.CLAIMED,
        EventKind.HOLD_LAPSED,
        EventKind.COMMITTED,
        EventKind.FAILED,
        EventKind.FELL_IN_DOUBT,
        EventKind.RETRIED,
        EventKind.DISPROVED,
        EventKind.ABORTED,
        EventKind.FAILURE_SETTLED,
        EventKind.WITHDRAWN,
        EventKind.LET_GO_BY_HAND,
        EventKind.FAILURE_LET_GO_BY_HAND,
        EventKind.LATE_RECEIPT,
        EventKind.RECEIPT_KEPT,
        EventKind.COMPENSATION_STARTED,
        EventKind.COMPENSATED,
        TaskEventKind.ANSWERED,
        TaskEventKind.QUESTION_LAPSED,
        TaskEventKind.COMPLETED,
        TaskEventKind.FAILED,
        TaskEventKind.CANCELED,
        EventKind.CONTENT_ERASED,
        TaskEventKind.CONTENT_ERASED,
    }
)
SOON, LONGEST = timedelta(seconds=1), timedelta(minutes=1)


# What an operator does about what Slack says.
REMEDY = {
    "not_in_channel": "Invite the bot there: /invite @Assent.",
    "channel_not_found": "Check the route's channel, and invite the bot there.",
    "is_archived": "Give the route another channel.",
    "missing_scope": "Add the scope to the app and install it again: manage.py slack_check.",
    **dict.fromkeys(
        ("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"),
        "Renew ASSENT_SLACK_BOT_TOKEN: manage.py slack_check.",
    ),
}


class SlackRefused(Exception):
    """Slack answered, and said no."""

    def __init__(self, error: str) -> None:
        super().__init__(f"{error}. {REMEDY.get(error, '')}".strip())


class SlackChannel:
    name = CHANNEL

    def wants(self, kind: str) -> bool:
        return credentials.is_configured() and kind in ASKS | CHANGES

    def address(self, event: Event) -> Iterable[Owed]:
        """Every copy that there is, or that has to be."""
        if event.kind == EventKind.PREPARED:
            return list(_ask_for_sign_off(event))
        if event.kind == TaskEventKind.ASKED:
            return list(_ask(event))
        return list(_tell(event))

    def send(self, delivery: Delivery) -> None:
        """Raises ``NotNow, Unreachable, NoSuchApp`` and ``SlackRefused``."""
        action, message_id = recipients.parse(delivery.recipient)
        try:
            SENDERS[action](delivery, message_id)
        except SlackApiError as refusal:
            raise SlackRefused(error_of(refusal)) from None


def _ask_for_sign_off(event: Event) -> Iterator[Owed]:
    row = event.transaction
    assert row is not None
    tool = contracts.tools.get(row.tool)
    remind = tool.contract.remind if tool else None
    for place in routing.places_for(row):
        copy = _new_copy(place, transaction=row)
        yield Owed(recipient_of(Action.UPDATE, copy))
        if remind is not None and row.expires_at - remind > row.created_at:
            yield Owed(recipient_of(Action.REMIND, copy), row.expires_at - remind)
        yield from _escalation(place, copy, event)


def _ask(event: Event) -> Iterator[Owed]:
    asked = _named_in(event)
    question = Question.objects.filter(pk=asked).first() if asked else None
    if question is None:
        return
    for place in routing.places_for_question(question):
        copy = _new_copy(place, question=question)
        yield Owed(recipient_of(Action.UPDATE, copy))
        yield from _escalation(place, copy, event)


def _escalation(place: Place, copy: SlackMessage, event: Event) -> Iterator[Owed]:
    if place.escalate_to and place.escalate_after is not None:
        yield Owed(recipient_of(Action.ESCALATE, copy), event.at + place.escalate_after)


def _new_copy(place: Place, **subject: Any) -> SlackMessage:
    return messages.new_copy(
        place.workspace, place.target, escalate_to=place.escalate_to, **subject
    )


def _tell(event: Event) -> Iterator[Owed]:
    """Every copy looks again; a note goes below those that the event is about."""
    found = messages.copies_of(event)
    about = _question_of(event, {copy.question_id for copy in found})
    for copy in found:
        yield Owed(recipient_of(Action.UPDATE, copy))
        if thread_replies.is_said(event) and copy.question_id == about:
            yield Owed(recipient_of(Action.REPLY, copy))


def _question_of(event: Event, posted: set[UUID | None]) -> UUID | None:
    """The question below whose message an event of a task is told; ``None`` for a transaction.

    The one that the event names. The end of the task names none: it is told below the last
    question that was asked before it and ``posted``.
    """
    if event.transaction_id is not None:
        return None
    if named := _named_in(event):
        return named
    asked = Event.objects.filter(subject=event.subject, kind=ASK.kind, seq__lt=event.seq)
    earlier = map(_named_in, asked.order_by("-seq"))
    return next((question for question in earlier if question in posted), None)


def _named_in(event: Event) -> UUID | None:
    return Question.named_in(json.loads(event.details))


# --- sending ---------------------------------------------------------------------------------


def _send_copy(delivery: Delivery, copy_id: int) -> None:
    messages.refresh(copy_id)


def _send_note(delivery: Delivery, copy_id: int) -> None:
    """In the order of the events; a copy that was never posted needs none."""
    copy = _copy(copy_id)
    if copy is None or copy.is_gone:
        return
    if not copy.ts:
        if _is_owed(delivery, recipient_of(Action.UPDATE, copy)):
            raise NotNow(_patience(delivery), "The message itself is not posted yet.")
        return
    if _is_owed(delivery, delivery.recipient):
        raise NotNow(_patience(delivery), "An earlier note is still on its way.")
    text, said = thread_replies.note(delivery.event)
    messages.say_in_thread(
        copy, text, said, mark=f"{copy_id}.{delivery.event_id}",
        is_repeated=delivery.attempts > 1, since=delivery.event.at,
    )  # fmt: skip


def _patience(delivery: Delivery) -> timedelta:
    return min(SOON * delivery.attempts, LONGEST)


def _is_owed(delivery: Delivery, recipient: str) -> bool:
    """Whether the like of it is still on its way for an earlier event, or for this one."""
    return (
        Delivery.objects.filter(
            event__subject=delivery.event.subject,
            event__lte=delivery.event_id,
            channel=CHANNEL,
            recipient=recipient,
            state=DeliveryState.WAITING,
        )
        .exclude(pk=delivery.pk)
        .exists()
    )


def _remind(delivery: Delivery, copy_id: int) -> None:
    copy = _copy(copy_id)
    if copy is None or copy.is_gone or not _is_still_asked(copy):
        return
    if not copy.ts:
        raise NotNow(_patience(delivery), "The message itself is not posted yet.")
    text, said = thread_replies.reminder(copy)
    reminder = messages.say_in_thread(
        copy, text, said, mark=f"{copy_id}.reminder", is_repeated=delivery.attempts > 1,
        since=delivery.event.at, to_all=True,
    )  # fmt: skip
    messages.remember_reminder(copy, reminder)
    if not messages.is_waiting(copy):
        messages.refresh(copy.pk)  # decided meanwhile, by whoever did not know of the reminder


def _is_still_asked(copy: SlackMessage) -> bool:
    return messages.is_waiting(copy) and messages.is_served(copy)


def _escalate(delivery: Delivery, copy_id: int) -> None:
    """Nobody has acted: the next channel gets a copy of its own, and the first hears of it."""
    copy = _copy(copy_id)
    if copy is None or not _is_still_asked(copy) or not copy.escalate_to:
        return
    subject = {"transaction": copy.transaction} if copy.transaction else {"question": copy.question}
    why = "Escalated: nobody acted in time where it was asked first."
    next_one = messages.new_copy(copy.workspace, copy.escalate_to, why=why, **subject)
    messages.refresh(next_one.pk)
    if copy.ts and not copy.is_gone:
        text, said = thread_replies.escalated(copy.escalate_to)
        messages.say_in_thread(
            copy, text, said, mark=f"{copy_id}.escalation",
            is_repeated=delivery.attempts > 1, since=delivery.event.at,
        )  # fmt: skip


def _copy(copy_id: int) -> SlackMessage | None:
    related = ("workspace", "transaction", "question__task")
    return SlackMessage.objects.select_related(*related).filter(pk=copy_id).first()


SENDERS: dict[Action, Callable[[Delivery, int], None]] = {
    Action.UPDATE: _send_copy,
    Action.REPLY: _send_note,
    Action.REMIND: _remind,
    Action.ESCALATE: _escalate,
}
