"""The copies of a transaction or question in Slack: each shows how things stand, or is on its way.

One at a time talks to Slack about a copy; whoever comes meanwhile is put off. A post whose outcome
is not known is looked for, by the metadata that it carries, before it is made again.
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
from approvals.slack.api.calls import call, error_of
from approvals.slack.api.credentials import SlackApp
from approvals.slack.api.workspaces import app_for
from approvals.slack.rendering import blocks
from approvals.slack.rendering.text import rich, words
from ledger.events.outbox import NotNow
from ledger.models import Event, Transaction

logger = logging.getLogger(__name__)

BUSY = timedelta(seconds=40)  # longer than all calls about one copy together
SOON = timedelta(milliseconds=500)
CLOCKS_DIFFER = timedelta(minutes=5)  # ours and Slack's, at most
PARSE = "none"  # no address in a text becomes a link
EVENT_TYPE = "assent_message"
# What Slack says of a message that is not there any more.
GONE = frozenset({"message_not_found", "cant_update_message"})
# Of one that has to stay as it is; its thread still says what became.
FROZEN = frozenset({"edit_window_closed"})
# What it says when we may not look; then we post, and a second copy is dealt with when clicked.
BLIND = frozenset(
    {
        "missing_scope",
        "not_in_channel",
        "channel_not_found",
        "method_not_supported_for_channel_type",
    }
)


def copies_of(event: Event) -> list[SlackMessage]:
    """Of a transaction, or of all questions of a task."""
    if event.transaction_id is not None:
        mine = SlackMessage.objects.filter(transaction=event.transaction_id)
    else:
        mine = SlackMessage.objects.filter(question__task=event.subject)
    return list(mine.select_related("question").order_by("pk"))


def new_copy(
    workspace: SlackWorkspace, target: str, *, why: str = "", escalate_to: str = "", **subject: Any
) -> SlackMessage:
    """The copy of this transaction or question at this place; made once."""
    told = {"why": why[:200], "escalate_to": escalate_to}
    copy, _ = SlackMessage.objects.get_or_create(
        workspace=workspace, target=target, **subject, defaults=told
    )
    return copy


def refresh(copy_id: int) -> None:
    """Make the copy show how things stand now.

    What is decided before it was ever posted is not posted. Raises ``NotNow`` while another is at
    it, and what ``call`` raises.
    """
    with _held(copy_id) as copy:
        if copy is not None:
            _bring_up_to_date(app_for(copy.workspace), copy)


def _bring_up_to_date(app: SlackApp, copy: SlackMessage) -> None:
    if not copy.ts and copy.posting_at is not None:
        _find_posted(app, copy)
    shown = blocks.shown(copy)
    if copy.ts:
        _update(app, copy, shown)
    elif shown.is_waiting and is_served(copy):
        _post(app, copy, shown)
    else:
        _keep(copy, posting_at=None)
    if copy.reminder_ts and not shown.is_waiting:
        _settle_reminder(app, copy, shown)


def rewrite_stray(copy: SlackMessage, channel: str, ts: str) -> None:
    """A second post of the same copy, which somebody clicked: as the first one, but no buttons."""
    shown = blocks.shown(copy)
    kept = [block for block in shown.blocks if block["type"] != "actions"]
    call(
        app_for(copy.workspace), "chat.update",
        channel=channel, ts=ts, text=shown.text, blocks=kept, parse=PARSE,
    )  # fmt: skip


def is_known(copy: SlackMessage, channel: str, ts: str) -> bool:
    """Whether that post is this copy: of one whose outcome we never heard, it is from now on."""
    nowhere_else = SlackMessage.objects.filter(pk=copy.pk)
    if copy.ts == ts:
        # It was clicked, so it is there after all.
        nowhere_else.filter(is_gone=True).update(is_gone=False)
        return True
    return bool(nowhere_else.filter(ts="").update(channel=channel, ts=ts))


@contextmanager
def _held(copy_id: int) -> Iterator[SlackMessage | None]:
    free = Q(busy_until=None) | Q(busy_until__lte=Now())
    mine = SlackMessage.objects.filter(pk=copy_id, is_gone=False)
    if not mine.filter(free).update(busy_until=Now() + BUSY, hold=F("hold") + 1):
        if mine.exists():
            raise NotNow(SOON, "Somebody else is writing to Slack about it.")
        yield None
        return
    related = ("workspace", "transaction", "question__task")
    copy = SlackMessage.objects.select_related(*related).get(pk=copy_id)
    try:
        yield copy
    finally:
        if not _mine(copy).update(busy_until=None):
            # We were too slow, and may have written over what another wrote since.
            SlackMessage.objects.filter(pk=copy_id).update(shown="")
            raise NotNow(SOON, "Somebody else wrote to Slack about it meanwhile.")


def _mine(copy: SlackMessage) -> QuerySet[SlackMessage]:
    return SlackMessage.objects.filter(pk=copy.pk, hold=copy.hold)


def _post(app: SlackApp, copy: SlackMessage, shown: blocks.Shown) -> None:
    channel = channel_of(app, copy)
    _keep(copy, channel=channel, posting_at=copy.posting_at or timezone.now())
    try:
        answer = call(
            app, "chat.postMessage",
            channel=channel, text=shown.text, blocks=shown.blocks, unfurl_links=False,
            unfurl_media=False, parse=PARSE, metadata=_mark(str(copy.pk)),
        )  # fmt: skip
    except (NotNow, SlackApiError):
        _keep(copy, posting_at=None)  # Slack said no: it is surely not there
        raise
    _keep(copy, channel=answer["channel"], ts=answer["ts"], shown=shown.hash)


def channel_of(app: SlackApp, copy: SlackMessage) -> str:
    """A person's direct messages have a channel of their own."""
    if copy.channel:
        return copy.channel
    if not copy.target.startswith(("U", "W")):
        return copy.target
    opened = call(app, "conversations.open", users=copy.target)
    return str(opened["channel"]["id"])


def _update(app: SlackApp, copy: SlackMessage, shown: blocks.Shown) -> None:
    if copy.shown == shown.hash:
        return
    try:
        call(
            app, "chat.update",
            channel=copy.channel, ts=copy.ts, text=shown.text, blocks=shown.blocks, parse=PARSE,
        )  # fmt: skip
    except SlackApiError as refusal:
        if error_of(refusal) in GONE:
            _keep(copy, is_gone=True)
            return
        if error_of(refusal) not in FROZEN:
            raise
    _keep(copy, shown=shown.hash)


def _settle_reminder(app: SlackApp, copy: SlackMessage, shown: blocks.Shown) -> None:
    """It said that something waits; it may stand in the channel as well as in the thread."""
    try:
        call(
            app, "chat.update", channel=copy.channel, ts=copy.reminder_ts, text=shown.text,
            blocks=[rich(words(shown.became)).to_dict()], parse=PARSE,
        )  # fmt: skip
    except SlackApiError as refusal:
        if error_of(refusal) not in GONE | FROZEN:
            raise
    _keep(copy, reminder_ts="")


def _find_posted(app: SlackApp, copy: SlackMessage) -> None:
    """An earlier post may have arrived although we never heard so."""
    assert copy.posting_at is not None
    if found := _find(app, copy, copy.posting_at, str(copy.pk)):
        _keep(copy, ts=found)


def _find(app: SlackApp, copy: SlackMessage, since: datetime, mark: str, thread: str = "") -> str:
    """The ``ts`` of our message that carries this mark; empty when there is none to be seen."""
    where: dict[str, Any] = {"channel": copy.channel, "limit": 200, "include_all_metadata": True}
    where["oldest"] = f"{(since - CLOCKS_DIFFER).timestamp():.6f}"
    method = "conversations.history"
    if thread:
        method, where["ts"] = "conversations.replies", thread
    try:
        answer = call(app, method, **where)
    except SlackApiError as refusal:
        if error_of(refusal) in BLIND:
            return ""
        raise
    for message in answer["messages"]:
        is_ours = message.get("user") == copy.workspace.bot_user_id
        if is_ours and message.get("metadata") == _mark(mark):
            return str(message["ts"])
    return ""


def _mark(mark: str) -> dict[str, Any]:
    return {"event_type": EVENT_TYPE, "event_payload": {"mark": mark}}


def say_in_thread(
    copy: SlackMessage, text: str, said: list[dict[str, Any]], *, mark: str, is_repeated: bool,
    since: datetime, to_all: bool = False,
) -> str:  # fmt: skip
    """A note below the copy, once: ``mark`` names it. Its ``ts``, or nothing if the thread is gone.

    Raises as ``call`` does.
    """
    app = app_for(copy.workspace)
    try:
        if is_repeated and (found := _find(app, copy, since, mark, copy.ts)):
            return found
        answer = call(
            app, "chat.postMessage",
            channel=copy.channel, thread_ts=copy.ts, text=text, blocks=said, metadata=_mark(mark),
            reply_broadcast=to_all, unfurl_links=False, unfurl_media=False, parse=PARSE,
        )  # fmt: skip
    except SlackApiError as refusal:
        if error_of(refusal) not in GONE | {"thread_not_found"}:
            raise
        logger.info("no thread to say it in: %s", copy)
        return ""
    return str(answer["ts"])


def remember_reminder(copy: SlackMessage, ts: str) -> None:
    SlackMessage.objects.filter(pk=copy.pk).update(reminder_ts=ts)


def is_served(copy: SlackMessage) -> bool:
    """Whether the workspace may still be shown what is of this tenant."""
    return copy.workspace.tenants.filter(slug=copy.tenant).exists()


def _keep(copy: SlackMessage, **what: Any) -> None:
    """Written at once: whatever comes next may not come back. Only while we hold it."""
    for name, value in what.items():
        setattr(copy, name, value)
    _mine(copy).update(**what)


def is_waiting(copy: SlackMessage) -> bool:
    """By the tables, now."""
    if copy.question_id is not None:
        assert copy.question is not None
        return copy.question.state == "open"
    assert copy.transaction_id is not None
    return Transaction.objects.pending().filter(pk=copy.transaction_id).exists()
