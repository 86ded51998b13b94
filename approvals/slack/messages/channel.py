"""Slack as a channel of the outbox: events become posts, updates, thread replies and reminders.

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

from django.utils import timezone
from django.utils.translation import gettext_noop
from slack_sdk.errors import SlackApiError

from a2a.models import Question
from a2a.states import ASK, TaskEventKind
from approvals.desk import brake_of
from approvals.models import SlackMessage
from approvals.slack.api import error_of, is_configured
from approvals.slack.languages import in_language_of_message
from approvals.slack.messages import posting, recipients, routing, thread_replies
from approvals.slack.messages.recipients import CHANNEL, REMEDY, Action, recipient_of
from approvals.slack.messages.routing import Destination
from ledger.events import ChangeKind
from ledger.events.outbox import NotNow, Owed
from ledger.foundation.backoff import Backoff
from ledger.models import Brake, Delivery, DeliveryState, Event
from ledger.states import EventKind
from ledger.tools import tool_of

# A message is posted for these.
ASKS = frozenset({EventKind.PREPARED, TaskEventKind.ASKED})
# After these the message may show something else.
CHANGES = frozenset(
    {
        EventKind.APPROVAL_RECORDED,
        EventKind.PASSED_ON,
        EventKind.APPROVED,
        EventKind.APPROVAL_WITHDRAWN,
        EventKind.TERMS_RENEWED,
        EventKind.TERMS_TIGHTENED,
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
        EventKind.DEADLINE_MOVED,
        EventKind.HANDED_OVER,
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
# After these the messages of what they stop do.
STOPS = frozenset({ChangeKind.BRAKE_PUT, ChangeKind.BRAKE_LIFTED})
# Above the message in the next channel; translated when it is shown.
ESCALATED = gettext_noop("Escalated: nobody acted in time where it was asked first.")
# Messages that are brought up to date after a brake is put or lifted, the newest first.
MOST_OF_STOP, AT_ONCE_OF_STOP = 200, 20
# While a delivery waits for an earlier one.
BACKOFF = Backoff(first=timedelta(seconds=1), longest=timedelta(minutes=1))


class SlackRefused(Exception):
    """Slack answered with an error; the text says what an operator can do."""

    def __init__(self, error: str) -> None:
        super().__init__(f"{error}. {REMEDY.get(error, '')}".strip())


class SlackChannel:
    """Posts and updates the messages that the routes ask for."""

    name = CHANNEL

    def wants(self, kind: str) -> bool:
        return is_configured() and kind in ASKS | CHANGES | STOPS

    def address(self, event: Event) -> Iterable[Owed]:
        """One or more deliveries for every message that exists, or that a route asks for."""
        if event.kind == EventKind.PREPARED:
            return list(_for_sign_off(event))
        if event.kind == TaskEventKind.ASKED:
            return list(_for_question(event))
        if event.kind in STOPS:
            return list(_for_stop(event))
        return list(_for_change(event))

    def send(self, delivery: Delivery) -> None:
        """Raises ``NotNow, Unreachable, NoSuchApp`` and ``SlackRefused``."""
        action, message_id = recipients.parse(delivery.recipient)
        try:
            SENDERS[action](delivery, message_id)
        except SlackApiError as refusal:
            raise SlackRefused(error_of(refusal)) from None


# --- addressing ------------------------------------------------------------------------------


def _for_sign_off(event: Event) -> Iterator[Owed]:
    row = event.transaction
    assert row is not None
    tool = tool_of(row)
    remind = tool.contract.remind if tool else None
    for destination in routing.destinations_for(row):
        message = _message_at(destination, transaction=row)
        yield Owed(recipient_of(Action.UPDATE, message))
        if remind is not None and row.expires_at - remind > row.created_at:
            yield Owed(recipient_of(Action.REMIND, message), row.expires_at - remind)
        yield from _escalation(destination, message, event)


def _for_question(event: Event) -> Iterator[Owed]:
    question_id = _question_named_in(event)
    question = Question.objects.filter(pk=question_id).first() if question_id else None
    if question is None:
        return
    for destination in routing.destinations_for_question(question):
        message = _message_at(destination, question=question)
        yield Owed(recipient_of(Action.UPDATE, message))
        yield from _escalation(destination, message, event)


def _message_at(destination: Destination, **subject: Any) -> SlackMessage:
    return posting.get_or_create(
        destination.workspace, destination.target, escalate_to=destination.escalate_to, **subject
    )


def _escalation(destination: Destination, message: SlackMessage, event: Event) -> Iterator[Owed]:
    if destination.escalate_to and destination.escalate_after is not None:
        yield Owed(recipient_of(Action.ESCALATE, message), event.at + destination.escalate_after)


def _for_change(event: Event) -> Iterator[Owed]:
    """Every message about the subject is updated; those that the event is about get a reply."""
    messages = posting.messages_about(event)
    question_id = _question_of(event, {message.question_id for message in messages})
    for message in messages:
        yield Owed(recipient_of(Action.UPDATE, message))
        if thread_replies.is_posted(event) and message.question_id == question_id:
            yield Owed(recipient_of(Action.REPLY, message))


def _for_stop(event: Event) -> Iterator[Owed]:
    """Some at once, further ones one a second, as Slack takes them; the rest when they change."""
    brake_id = int(json.loads(event.details)["subject"].removeprefix("brake:"))
    messages = posting.messages_under(Brake.objects.get(pk=brake_id), MOST_OF_STOP)
    for number, message in enumerate(messages):
        later = timedelta(seconds=max(0, number - AT_ONCE_OF_STOP))
        yield Owed(recipient_of(Action.UPDATE, message), event.at + later if later else None)


def _question_of(event: Event, posted: set[UUID | None]) -> UUID | None:
    """The question whose thread an event of a task belongs to; ``None`` for a transaction.

    The question that the event names. The end of a task names none: it belongs to the last
    question that was asked before it and ``posted``.
    """
    if event.transaction_id is not None:
        return None
    if named := _question_named_in(event):
        return named
    asked = Event.objects.filter(subject=event.subject, kind=ASK.kind, seq__lt=event.seq)
    earlier = map(_question_named_in, asked.order_by("-seq"))
    return next((question for question in earlier if question in posted), None)


def _question_named_in(event: Event) -> UUID | None:
    return Question.named_in(json.loads(event.details))


# --- sending ---------------------------------------------------------------------------------


def _send_update(delivery: Delivery, message_id: int) -> None:
    posting.refresh(message_id)


def _send_reply(delivery: Delivery, message_id: int) -> None:
    """In the order of the events. A message that was never posted has no thread."""
    message = _message(message_id)
    if message is None or message.is_gone:
        return
    if not message.ts:
        if _is_owed(delivery, recipient_of(Action.UPDATE, message)):
            raise NotNow(_wait(delivery), "The message itself is not posted yet.")
        return
    if _is_owed(delivery, delivery.recipient):
        raise NotNow(_wait(delivery), "An earlier reply is still on its way.")
    with in_language_of_message(message):
        reply = thread_replies.about(delivery.event)
    _post_reply(delivery, message, reply, mark=f"{message_id}.{delivery.event_id}")


def _is_owed(delivery: Delivery, recipient: str) -> bool:
    """True if another delivery to ``recipient`` waits, of this event or an earlier one."""
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


def _send_reminder(delivery: Delivery, message_id: int) -> None:
    message = _message(message_id)
    if message is None or message.is_gone or not _is_open(message):
        return
    if not message.ts:
        raise NotNow(_wait(delivery), "The message itself is not posted yet.")
    if waits := _time_to_reminder(message):
        raise NotNow(waits, "Its clock stands still, or stood still.")
    with in_language_of_message(message):
        reply = thread_replies.reminder(message)
    ts = _post_reply(delivery, message, reply, mark=f"{message_id}.reminder", to_channel=True)
    posting.remember_reminder(message, ts)
    if not posting.is_waiting(message):
        # Decided in the meantime, when the reminder was not known: settle it now.
        posting.refresh(message.pk)


def _escalate(delivery: Delivery, message_id: int) -> None:
    """Nobody has decided: post a message in the next channel, and say so below the first."""
    message = _message(message_id)
    if message is None or not _is_open(message) or not message.escalate_to:
        return
    subject = (
        {"transaction": message.transaction}
        if message.transaction
        else {"question": message.question}
    )
    with in_language_of_message(message):
        reply = thread_replies.escalation(message.escalate_to)
    escalated = posting.get_or_create(
        message.workspace, message.escalate_to, why=ESCALATED, **subject
    )
    posting.refresh(escalated.pk)
    if message.ts and not message.is_gone:
        _post_reply(delivery, message, reply, mark=f"{message_id}.escalation")


def _post_reply(
    delivery: Delivery,
    message: SlackMessage,
    reply: thread_replies.ThreadReply,
    *,
    mark: str,
    to_channel: bool = False,
) -> str:
    return posting.reply_in_thread(
        message,
        *reply,
        mark=mark,
        look_first=delivery.attempts > 1,
        since=delivery.event.at,
        to_channel=to_channel,
    )


def _message(message_id: int) -> SlackMessage | None:
    related = ("workspace", "transaction", "question__task")
    return SlackMessage.objects.select_related(*related).filter(pk=message_id).first()


def _is_open(message: SlackMessage) -> bool:
    return posting.is_waiting(message) and posting.is_served(message)


def _time_to_reminder(message: SlackMessage) -> timedelta | None:
    """While a brake stands, a minute; afterwards until the deadline that it put off is near."""
    row = message.transaction
    tool = tool_of(row) if row is not None else None
    if row is None or tool is None or tool.contract.remind is None:
        return None
    if brake_of(row) is not None:
        return timedelta(minutes=1)
    left = row.expires_at - tool.contract.remind - timezone.now()
    was_stopped = left > timedelta() and row.events.filter(kind=EventKind.DEADLINE_MOVED).exists()
    return left if was_stopped else None


def _wait(delivery: Delivery) -> timedelta:
    return BACKOFF.wait(delivery.attempts)


SENDERS: dict[Action, Callable[[Delivery, int], None]] = {
    Action.UPDATE: _send_update,
    Action.REPLY: _send_reply,
    Action.REMIND: _send_reminder,
    Action.ESCALATE: _escalate,
}
