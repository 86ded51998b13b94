"""The copies of a transaction or question in Slack: each shows how things stand, or is on its way.

One at a time talks to Slack about a copy; whoever comes meanwhile is put off. A post whose outcome
is not known is looked for, by the metadata that it carries, before it is made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from slack_sdk.errors import SlackApiError

from approvals.models import SlackMessage, SlackWorkspace
from approvals.slack import blocks
from approvals.slack.calls import call, error_of
from approvals.slack.credentials import SlackApp
from approvals.slack.workspaces import app_for
from ledger.deliveries import NotNow
from ledger.models import Transaction

BUSY = timedelta(seconds=40)  # longer than all calls about one copy together
SOON = timedelta(milliseconds=500)
PARSE = "none"  # no address in a text becomes a link
EVENT_TYPE = "assent_message"
# What Slack says of a message or channel that will not come back.
GONE = frozenset(
    {"message_not_found", "cant_update_message", "channel_not_found", "is_archived",
     "edit_window_closed"}
)  # fmt: skip
# What it says when we may not look; then we post, and a second copy is dealt with when clicked.
BLIND = frozenset(
    {
        "missing_scope",
        "not_in_channel",
        "channel_not_found",
        "method_not_supported_for_channel_type",
    }
)


def copies_of(subject: UUID) -> list[SlackMessage]:
    """Of a transaction, or of a task's newest question."""
    of_transaction = list(SlackMessage.objects.filter(transaction=subject).order_by("pk"))
    if of_transaction:
        return of_transaction
    newest = SlackMessage.objects.filter(question__task=subject).order_by("-question").first()
    if newest is None:
        return []
    return list(SlackMessage.objects.filter(question=newest.question_id).order_by("pk"))


def new_copy(workspace: SlackWorkspace, target: str, why: str = "", **subject: Any) -> SlackMessage:
    """The copy of this transaction or question at this place; made once."""
    copy, _ = SlackMessage.objects.get_or_create(
        workspace=workspace, target=target, **subject, defaults={"why": why[:200]}
    )
    return copy


def refresh(copy_id: int) -> None:
    """Make the copy show how things stand now.

    What is decided before it was ever posted is not posted. Raises ``NotNow`` while another is at
    it, and what ``call`` raises.
    """
    with _held(copy_id) as copy:
        if copy is None:
            return
        app = app_for(copy.workspace)
        if not copy.ts and copy.posting_at is not None:
            _find_posted(app, copy)
        shown = blocks.shown(copy)
        if copy.ts:
            _update(app, copy, shown)
        elif shown.is_waiting:
            _post(app, copy, shown)
        else:
            _keep(copy, posting_at=None)


def rewrite_stray(copy: SlackMessage, channel: str, ts: str) -> None:
    """A second post of the same copy, which somebody clicked: as the first one, but no buttons."""
    shown = blocks.shown(copy)
    kept = [block for block in shown.blocks if block["type"] != "actions"]
    call(
        app_for(copy.workspace), "chat.update",
        channel=channel, ts=ts, text=shown.text, blocks=kept, parse=PARSE,
    )  # fmt: skip


def adopt(copy: SlackMessage, channel: str, ts: str) -> None:
    """A click came from a post of which we never heard the outcome."""
    SlackMessage.objects.filter(pk=copy.pk, ts="").update(channel=channel, ts=ts)


@contextmanager
def _held(copy_id: int) -> Iterator[SlackMessage | None]:
    free = Q(busy_until=None) | Q(busy_until__lte=Now())
    mine = SlackMessage.objects.filter(pk=copy_id, is_gone=False)
    until = timezone.now() + BUSY
    if not mine.filter(free).update(busy_until=until):
        if mine.exists():
            raise NotNow(SOON, "Somebody else is writing to Slack about it.")
        yield None
        return
    related = ("workspace", "transaction", "question__task")
    try:
        yield SlackMessage.objects.select_related(*related).get(pk=copy_id)
    finally:
        SlackMessage.objects.filter(pk=copy_id, busy_until=until).update(busy_until=None)


def _post(app: SlackApp, copy: SlackMessage, shown: blocks.Shown) -> None:
    channel = channel_of(app, copy)
    _keep(copy, channel=channel, posting_at=timezone.now())
    answer = call(
        app, "chat.postMessage",
        channel=channel, text=shown.text, blocks=shown.blocks, unfurl_links=False,
        unfurl_media=False, parse=PARSE, metadata=_mark(str(copy.pk)),
    )  # fmt: skip
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
        if error_of(refusal) not in GONE:
            raise
        _keep(copy, is_gone=True)
        return
    _keep(copy, shown=shown.hash)


def _find_posted(app: SlackApp, copy: SlackMessage) -> None:
    """An earlier post may have arrived although we never heard so."""
    assert copy.posting_at is not None
    if found := find(app, copy.channel, copy.posting_at, str(copy.pk)):
        _keep(copy, ts=found)


def find(app: SlackApp, channel: str, since: datetime, mark: str, thread: str = "") -> str:
    """The ``ts`` of the message that carries this mark; empty when there is none to be seen."""
    where: dict[str, Any] = {"channel": channel, "limit": 200, "include_all_metadata": True}
    where["oldest"] = f"{since.timestamp() - 60:.6f}"
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
        if message.get("metadata", {}) == _mark(mark):
            return str(message["ts"])
    return ""


def _mark(mark: str) -> dict[str, Any]:
    return {"event_type": EVENT_TYPE, "event_payload": {"mark": mark}}


def say_in_thread(
    copy: SlackMessage, text: str, said: list[dict[str, Any]], *, mark: str, is_repeated: bool,
    since: datetime, to_all: bool = False,
) -> None:  # fmt: skip
    """A note below the copy, once: ``mark`` names it. Raises as ``call`` does."""
    app = app_for(copy.workspace)
    if is_repeated and find(app, copy.channel, since, mark, copy.ts):
        return
    try:
        call(
            app, "chat.postMessage",
            channel=copy.channel, thread_ts=copy.ts, text=text, blocks=said, metadata=_mark(mark),
            reply_broadcast=to_all, unfurl_links=False, unfurl_media=False, parse=PARSE,
        )  # fmt: skip
    except SlackApiError as refusal:
        if error_of(refusal) not in GONE | {"thread_not_found"}:
            raise


def _keep(copy: SlackMessage, **what: Any) -> None:
    """Written at once: whatever comes next may not come back."""
    for name, value in what.items():
        setattr(copy, name, value)
    SlackMessage.objects.filter(pk=copy.pk).update(**what)


def is_waiting(copy: SlackMessage) -> bool:
    """By the tables, now."""
    if copy.question_id is not None:
        assert copy.question is not None
        return copy.question.state == "open"
    assert copy.transaction_id is not None
    return Transaction.objects.pending().filter(pk=copy.transaction_id).exists()
