"""Changes of Slack's workspaces, routes and links, as the audit log seals them."""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_noop

from ledger.errors import Sentence


class SlackChange(TextChoices):
    """The values never change: they are sealed."""

    LINK_ASKED = "slack_link_asked", Sentence("asked to link a Slack user")
    LINKED = "slack_linked", Sentence("linked a Slack user")
    UNLINKED = "slack_unlinked", Sentence("unlinked a Slack user")
    WORKSPACE_CONNECTED = "slack_workspace_connected", Sentence("connected a Slack workspace")
    WORKSPACE_CHANGED = "slack_workspace_changed", Sentence("changed a Slack workspace")
    ROUTE_ADDED = "slack_route_added", Sentence("added a Slack route")
    ROUTE_CHANGED = "slack_route_changed", Sentence("changed a Slack route")
    ROUTE_REMOVED = "slack_route_removed", Sentence("removed a Slack route")
    ROUTE_TRIED = "slack_route_tried", Sentence("tried a Slack route")


# What the person hears whose account it concerns, by who did it.
TOLD_OF_ANOTHER: dict[str, str] = {
    SlackChange.LINK_ASKED: gettext_noop(
        "{who} asked to link your account with the Slack user "
        "{slack_user}. A link waits there; it counts when you open it here, signed in, and confirm."
    ),
    SlackChange.LINKED: gettext_noop("Your account was linked with the Slack user {slack_user}."),
    SlackChange.UNLINKED: gettext_noop(
        "{who} unlinked your account from the Slack user {slack_user}."
    ),
}
TOLD_OF_THEMSELVES: dict[str, str] = {
    SlackChange.LINKED: gettext_noop("You linked your account with the Slack user {slack_user}."),
    SlackChange.UNLINKED: gettext_noop(
        "You unlinked your account from the Slack user {slack_user}."
    ),
}
