"""Messages in Slack: post them, keep them up to date, reply in their threads.

One worker at a time writes to Slack about a message; others are put off (``NotNow``). A post whose
outcome is not known is looked for, by the metadata that it carries, before it is made again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from slack_sdk.errors import SlackApiError

from approvals.models import SlackMessage, SlackWorkspace
from approvals.slack.api import SlackApp, app_for, call_slack, error_of
from approvals.slack.rendering import RenderedMessage, as_dicts, regular, render, rich
from ledger.events.outbox import NotNow
from ledger.models import Brake, Event, Transaction
from ledger.states import State

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=40)  # longer than all calls about one message together
SOON = timedelta(milliseconds=500)
CLOCKS_DIFFER = timedelta(minutes=5)  # ours and Slack's, at most
METADATA_TYPE = "assent_message"
# No address in a text becomes a link or a preview.
PARSE = "none"
NO_PREVIEWS = {"unfurl_links": False, "unfurl_media": False, "parse": PARSE}

# Errors of Slack. The message does not exist any more:
GONE = frozenset({"message_not_found", "cant_update_message"})
# It cannot be changed; its thread still says what became of it:
FROZEN = frozenset({"edit_window_closed"})
# Assent may not read there. It posts then; a duplicate is dealt with when it is clicked:
UNREADABLE = frozenset(
    {
        "missing_scope",
        "not_in_channel",
        "channel_not_found",
        "method_not_supported_for_channel_type",
    }
)


# --- rows ------------------------------------------------------------------------------------


def messages_about(event: Event) -> list[SlackMessage]:
    """The messages about the event's transaction, or about all questions of its task."""
    if event.transaction_id is not None:
        messages = SlackMessage.objects.filter(transaction=event.transaction_id)
    else:
        messages = SlackMessage.objects.filter(question__task=event.subject)
    return list(messages.select_related("question").order_by("pk"))


def messages_under(brake: Brake, most: int) -> list[SlackMessage]:
    """The newest messages of what waits for sign-off and this brake stops, or stopped."""
    scope = {"tenant": brake.tenant, "proposed_by": brake.agent, "tool": brake.tool}
    named = {f"transaction__{column}": value for column, value in scope.items() if value}
    waiting = SlackMessage.objects.filter(transaction__state=State.PREPARED, is_gone=False, **named)
    return list(waiting.exclude(ts="").order_by("-pk")[:most])


def get_or_create(
    workspace: SlackWorkspace, target: str, *, why: str = "", escalate_to: str = "", **subject: Any
) -> SlackMessage:
    """The one message about this transaction or question in this channel; not posted yet if new."""
    message, _ = SlackMessage.objects.get_or_create(
        workspace=workspace,
        target=target,
        **subject,
        defaults={"why": why[:200], "escalate_to": escalate_to},
    )
    return message


def remember_reminder(message: SlackMessage, ts: str) -> None:
    SlackMessage.objects.filter(pk=message.pk).update(reminder_ts=ts)


def is_served(message: SlackMessage) -> bool:
    """True if the workspace may still be shown what belongs to this tenant."""
    return message.workspace.tenants.filter(slug=message.tenant).exists()


def is_waiting(message: SlackMessage) -> bool:
    """True if somebody may still act on its subject, by the database's clock."""
    if message.question_id is not None:
        assert message.question is not None
        return message.question.state == "open"
    assert message.transaction_id is not None
    return Transaction.objects.pending().filter(pk=message.transaction_id).exists()


# --- bringing a message up to date -----------------------------------------------------------


def refresh(message_id: int) -> None:
    """Make the message show the present state; post it if somebody may still act on it.

    Raises ``NotNow`` while another worker writes to Slack about it, and what ``call`` raises.
    """
    with _locked(message_id) as message:
        if message is not None:
            _bring_up_to_date(app_for(message.workspace), message)


@contextmanager
def _locked(message_id: int) -> Iterator[SlackMessage | None]:
    """The message, for one worker at a time until ``LEASE`` runs out; ``None`` if it is gone."""
    free = Q(busy_until=None) | Q(busy_until__lte=Now())
    rows = SlackMessage.objects.filter(pk=message_id, is_gone=False)
    if not rows.filter(free).update(busy_until=Now() + LEASE, hold=F("hold") + 1):
        if rows.exists():
            raise NotNow(SOON, "Somebody else is writing to Slack about it.")
        yield None
        return
    related = ("workspace", "transaction", "question__task")
    message = SlackMessage.objects.select_related(*related).get(pk=message_id)
    try:
        yield message
    finally:
        if not _still_locked(message).update(busy_until=None):
            # The lease ran out, and this may have overwritten what another worker wrote since.
            SlackMessage.objects.filter(pk=message_id).update(shown="")
            raise NotNow(SOON, "Somebody else wrote to Slack about it meanwhile.")


def _still_locked(message: SlackMessage) -> QuerySet[SlackMessage]:
    return SlackMessage.objects.filter(pk=message.pk, hold=message.hold)


def _save(message: SlackMessage, **columns: Any) -> None:
    """At once, because the next call may fail; only while the lock is ours."""
    for name, value in columns.items():
        setattr(message, name, value)
    _still_locked(message).update(**columns)


def _bring_up_to_date(app: SlackApp, message: SlackMessage) -> None:
    if not message.ts and message.posting_at is not None:
        _find_lost_post(app, message)
    rendered = render(message)
    if message.ts:
        _update(app, message, rendered)
    elif rendered.is_waiting and is_served(message):
        _post(app, message, rendered)
    else:
        _save(message, posting_at=None)
    if message.reminder_ts and not rendered.is_waiting:
        _settle_reminder(app, message, rendered)


def _post(app: SlackApp, message: SlackMessage, rendered: RenderedMessage) -> None:
    channel = _channel_of(app, message)
    _save(message, channel=channel, posting_at=message.posting_at or timezone.now())
    try:
        answer = call_slack(
            app,
            "chat.postMessage",
            channel=channel,
            text=rendered.text,
            blocks=rendered.blocks,
            metadata=_metadata(str(message.pk)),
            **NO_PREVIEWS,
        )
    except (NotNow, SlackApiError):
        _save(message, posting_at=None)  # Slack refused, so it was certainly not posted
        raise
    _save(message, channel=answer["channel"], ts=answer["ts"], shown=rendered.hash)


def _channel_of(app: SlackApp, message: SlackMessage) -> str:
    """A person's direct messages have a channel of their own."""
    if message.channel:
        return message.channel
    if not message.target.startswith(("U", "W")):
        return message.target
    opened = call_slack(app, "conversations.open", users=message.target)
    return str(opened["channel"]["id"])


def _update(app: SlackApp, message: SlackMessage, rendered: RenderedMessage) -> None:
    if message.shown == rendered.hash:
        return
    try:
        call_slack(
            app,
            "chat.update",
            channel=message.channel,
            ts=message.ts,
            text=rendered.text,
            blocks=rendered.blocks,
            parse=PARSE,
        )
    except SlackApiError as refusal:
        if error_of(refusal) in GONE:
            _save(message, is_gone=True)
            return
        if error_of(refusal) not in FROZEN:
            raise
    _save(message, shown=rendered.hash)


def _settle_reminder(app: SlackApp, message: SlackMessage, rendered: RenderedMessage) -> None:
    """Replace "still waits" by the outcome: a reminder may also stand in the channel itself."""
    try:
        call_slack(
            app,
            "chat.update",
            channel=message.channel,
            ts=message.reminder_ts,
            text=rendered.text,
            blocks=as_dicts([rich(regular(rendered.outcome))]),
            parse=PARSE,
        )
    except SlackApiError as refusal:
        if error_of(refusal) not in GONE | FROZEN:
            raise
    _save(message, reminder_ts="")


# --- posts whose outcome was not known -------------------------------------------------------


def _find_lost_post(app: SlackApp, message: SlackMessage) -> None:
    """An earlier post may have arrived although Slack's answer was lost."""
    assert message.posting_at is not None
    if ts := _find(app, message, message.posting_at, str(message.pk)):
        _save(message, ts=ts)


def _find(
    app: SlackApp, message: SlackMessage, since: datetime, mark: str, thread: str = ""
) -> str:
    """The ``ts`` of Assent's post that carries this mark; empty when there is none to be seen."""
    where: dict[str, Any] = {
        "channel": message.channel,
        "limit": 200,
        "include_all_metadata": True,
        "oldest": f"{(since - CLOCKS_DIFFER).timestamp():.6f}",
    }
    method = "conversations.history"
    if thread:
        method, where["ts"] = "conversations.replies", thread
    try:
        answer = call_slack(app, method, **where)
    except SlackApiError as refusal:
        if error_of(refusal) in UNREADABLE:
            return ""
        raise
    for post in answer["messages"]:
        is_ours = post.get("user") == message.workspace.bot_user_id
        if is_ours and post.get("metadata") == _metadata(mark):
            return str(post["ts"])
    return ""


def _metadata(mark: str) -> dict[str, Any]:
    return {"event_type": METADATA_TYPE, "event_payload": {"mark": mark}}


def recognize(message: SlackMessage, channel: str, ts: str) -> bool:
    """True if the post that was clicked is this message, and not a duplicate of it.

    If it is not known where the message was posted, it was this post, from now on.
    """
    rows = SlackMessage.objects.filter(pk=message.pk)
    if message.ts == ts:
        rows.filter(is_gone=True).update(is_gone=False)  # it was clicked, so it exists
        return True
    return bool(rows.filter(ts="").update(channel=channel, ts=ts))


def update_duplicate(message: SlackMessage, channel: str, ts: str) -> None:
    """A second post of the same message shows the same, but has no buttons."""
    rendered = render(message)
    call_slack(
        app_for(message.workspace),
        "chat.update",
        channel=channel,
        ts=ts,
        text=rendered.text,
        blocks=[block for block in rendered.blocks if block["type"] != "actions"],
        parse=PARSE,
    )


# --- threads ---------------------------------------------------------------------------------


def reply_in_thread(
    message: SlackMessage,
    text: str,
    blocks: list[dict[str, Any]],
    *,
    mark: str,
    look_first: bool,
    since: datetime,
    to_channel: bool = False,
) -> str:
    """Post a reply below the message, once: ``mark`` names it. Returns its ``ts``.

    ``look_first``: an earlier attempt may have posted it, at ``since`` at the earliest. Empty if
    the thread does not exist any more. Raises as ``call`` does.
    """
    app = app_for(message.workspace)
    try:
        if look_first and (ts := _find(app, message, since, mark, message.ts)):
            return ts
        answer = call_slack(
            app,
            "chat.postMessage",
            channel=message.channel,
            thread_ts=message.ts,
            text=text,
            blocks=blocks,
            metadata=_metadata(mark),
            reply_broadcast=to_channel,
            **NO_PREVIEWS,
        )
    except SlackApiError as refusal:
        if error_of(refusal) not in GONE | {"thread_not_found"}:
            raise
        logger.info("no thread for a reply: %s", message)
        return ""
    return str(answer["ts"])
