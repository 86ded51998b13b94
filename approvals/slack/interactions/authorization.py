"""Where an order comes from: which workspace, person and message. Or why it does not count."""

from __future__ import annotations

from django.contrib.auth.models import User
from slack_sdk.errors import SlackApiError

from approvals.models import SlackMessage, SlackWorkspace
from approvals.slack import identities
from approvals.slack.api.calls import NETWORK
from approvals.slack.api.credentials import NoSuchApp, SlackApp, apps
from approvals.slack.api.workspaces import app_for, workspace_of
from approvals.slack.interactions.commands import Order
from approvals.slack.rendering.blocks import desk_link
from approvals.slack.rendering.signed_values import Press


class Refused(Exception):
    """Said to the person who clicked, and to nobody else. ``page`` of the desk is offered."""

    def __init__(self, text: str, page: str = "") -> None:
        super().__init__(text)
        self.page = page


def signed(order: Order) -> list[SlackApp]:
    """The apps in whose name Slack signed it."""
    return [app for app in apps() if app.fingerprint in order.apps]


def workspace_behind(order: Order) -> tuple[SlackApp, SlackWorkspace]:
    """The app and the workspace that it is about, if Slack signed for that app.

    A button names its own workspace: the bot's, which in a shared channel is not the clicker's.
    Raises ``Refused``.
    """
    mine = signed(order)
    if order.press is not None:
        workspace = SlackWorkspace.objects.filter(team_id=order.press.team).first()
    else:
        workspace = workspace_of(mine[0], order.team) if mine else None
    if workspace is None:
        raise Refused("This workspace is not connected to Assent. Nothing was decided.")
    try:
        app = app_for(workspace)
    except NoSuchApp:
        raise Refused(
            "Assent has no bot in this workspace any more. Nothing was decided."
        ) from None
    except (SlackApiError, *NETWORK):
        raise Refused(
            "Slack could not be asked whose this is. Nothing was decided: try again in a minute."
        ) from None
    if app not in mine:
        raise Refused("This button is of another workspace. Nothing was decided.")
    return app, workspace


def person_behind(workspace: SlackWorkspace, order: Order) -> User:
    """Raises ``Refused``."""
    person = None
    if order.home_team:  # Slack always says it; without it we do not guess
        person = identities.person_behind(workspace, order.user, order.home_team)
    if person is None:
        raise Refused(
            "Assent does not know who you are at the desk, so nothing was decided. "
            "Link your account, once.",
            desk_link("slack"),
        )
    return person


def message_behind(workspace: SlackWorkspace, press: Press, order: Order) -> SlackMessage:
    """The message that was clicked, if it is one of ours about something this workspace sees.

    Raises ``Refused``.
    """
    related = ("workspace", "transaction", "question__task__skill")
    found = SlackMessage.objects.select_related(*related)
    copy = found.filter(pk=press.copy, workspace=workspace).first()
    subject = copy and (copy.transaction or copy.question)
    if copy is None or subject is None or str(subject.pk) != press.subject:
        raise Refused("There is no such message any more. Nothing was decided.")
    if copy.channel and order.channel != copy.channel:
        raise Refused("This button belongs into another channel. Nothing was decided.")
    if not workspace.tenants.filter(slug=subject.tenant).exists():
        raise Refused(f"This workspace does not serve {subject.tenant} any more.")
    return copy
