"""Changes of Slack's workspaces, routes and links, as the audit log seals them."""

from __future__ import annotations

from enum import StrEnum

from django.utils.translation import gettext_noop

from ledger.errors import Sentence


class SlackChange(StrEnum):
    """The values never change: they are sealed."""

    LINK_ASKED = "slack_link_asked"
    LINKED = "slack_linked"
    UNLINKED = "slack_unlinked"
    WORKSPACE_CONNECTED = "slack_workspace_connected"
    WORKSPACE_CHANGED = "slack_workspace_changed"
    ROUTE_ADDED = "slack_route_added"
    ROUTE_CHANGED = "slack_route_changed"
    ROUTE_REMOVED = "slack_route_removed"


DESCRIPTIONS: dict[str, str] = {
    SlackChange.LINK_ASKED: Sentence("asked to link a Slack user"),
    SlackChange.LINKED: Sentence("linked a Slack user"),
    SlackChange.UNLINKED: Sentence("unlinked a Slack user"),
    SlackChange.WORKSPACE_CONNECTED: Sentence("connected a Slack workspace"),
    SlackChange.WORKSPACE_CHANGED: Sentence("changed a Slack workspace"),
    SlackChange.ROUTE_ADDED: Sentence("added a Slack route"),
    SlackChange.ROUTE_CHANGED: Sentence("changed a Slack route"),
    SlackChange.ROUTE_REMOVED: Sentence("removed a Slack route"),
}
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
