"""Notices of account changes, as direct messages to the person whom they concern."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from slack_sdk.errors import SlackApiError

from approvals.models import SlackIdentity
from approvals.people import NOTICES, notice_text
from approvals.slack.api import app_for, call_slack, error_of
from approvals.slack.languages import in_language_of
from approvals.slack.rendering import desk_link, escaped
from ledger.events.outbox import Owed
from ledger.models import Delivery, Event
from ledger.principals import Principal


class NoticeChannel:
    """Direct messages to the person whom a change concerns, wherever they are linked."""

    name = NOTICES

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
        for identity in SlackIdentity.objects.filter(user=person).select_related("workspace"):
            with in_language_of(person, identity.workspace):
                text = _words(delivery.event, person)
            _tell(identity, text)


def _words(event: Event, person: User) -> str:
    hint = _("If nobody agreed this with you, tell an operator: {link}")
    return f"{notice_text(event, person)} {hint.format(link=desk_link('inbox'))}"


def _tell(identity: SlackIdentity, text: str) -> None:
    app = app_for(identity.workspace)
    try:
        channel = call_slack(app, "conversations.open", users=identity.slack_user_id)["channel"][
            "id"
        ]
        call_slack(app, "chat.postMessage", channel=channel, text=escaped(text), parse="none")
    except SlackApiError as refusal:
        raise RuntimeError(f"Slack refused: {error_of(refusal)}") from None
