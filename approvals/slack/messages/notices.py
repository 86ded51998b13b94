"""Notices of account changes, as direct messages to the person whom they concern."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User
from slack_sdk.errors import SlackApiError

from approvals.models import SlackIdentity
from approvals.people import notices
from approvals.slack.api.calls import call, error_of
from approvals.slack.api.workspaces import app_for
from approvals.slack.rendering import desk_link, escaped
from ledger.events.outbox import Owed
from ledger.models import Delivery, Event
from ledger.principals import Principal


class NoticeChannel:
    """Direct messages to the person whom a change concerns, wherever they are linked."""

    name = notices.NAME

    def wants(self, kind: str) -> bool:
        return False  # each event names its recipient

    def address(self, event: Event) -> Iterable[Owed]:
        return ()

    def send(self, delivery: Delivery) -> None:
        """Sent twice if Slack's first answer was lost, which is better than never."""
        key = Principal.parse(delivery.recipient).user_key
        person = User.objects.filter(pk=key).first() if key is not None else None
        if person is None:
            return
        text = notices.text_of(delivery.event, person)
        hint = f"If nobody agreed this with you, tell an operator: {desk_link('inbox')}"
        for identity in SlackIdentity.objects.filter(user=person).select_related("workspace"):
            _tell(identity, f"{text} {hint}")


def _tell(identity: SlackIdentity, text: str) -> None:
    app = app_for(identity.workspace)
    try:
        channel = call(app, "conversations.open", users=identity.slack_user_id)["channel"]["id"]
        call(app, "chat.postMessage", channel=channel, text=escaped(text), parse="none")
    except SlackApiError as refusal:
        raise RuntimeError(f"Slack refused: {error_of(refusal)}") from None
