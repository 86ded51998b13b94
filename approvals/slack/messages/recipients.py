"""The recipient of a delivery to Slack, as text: ``copy:42``, that is, an action and a message.

The number is the primary key of the ``SlackMessage``. Deliveries keep this text in the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from django.utils.translation import gettext as _

from approvals.models import SlackMessage, SlackRoute
from approvals.slack.messages import routing
from ledger.models import Delivery

CHANNEL = "slack"  # the name of Slack's delivery channel in the outbox
# What an operator does about an error that Slack answered.
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


class Action(StrEnum):
    """The action of a delivery on its message."""

    UPDATE = "copy"
    REPLY = "note"
    REMIND = "remind"
    ESCALATE = "escalate"


def recipient_of(action: Action, message: SlackMessage) -> str:
    return f"{action}:{message.pk}"


def parse(recipient: str) -> tuple[Action, int]:
    """The action and the primary key of the message. Raises ``ValueError``."""
    action, _colon, message_id = recipient.partition(":")
    return Action(action), int(message_id)


def places_of(deliveries: Iterable[Delivery]) -> dict[int, str]:
    """Places in Slack that deliveries go to, for people to read, by the delivery's primary key.

    Deliveries of other channels are left out, and those whose message does not exist.
    """
    message_ids = {
        delivery.pk: parse(delivery.recipient)[1]
        for delivery in deliveries
        if delivery.channel == CHANNEL and delivery.recipient
    }
    messages = SlackMessage.objects.select_related("workspace").in_bulk(set(message_ids.values()))
    return {
        delivery_id: _("Slack, {channel} in {workspace}").format(
            channel=message.target, workspace=message.workspace.name
        )
        for delivery_id, message_id in message_ids.items()
        if (message := messages.get(message_id)) is not None
    }


def target_of(route: SlackRoute) -> str:
    """The channel or Slack user that it leads to; empty for a person who cannot get messages."""
    destination = routing.destination_of(route)
    return destination.target if destination else ""
