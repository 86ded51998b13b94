"""Checks of an act in Slack: the workspace, the message and the person must be the right ones.

Whether the person may decide is for ``approvals.desk.decisions``, as on every other surface.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from slack_sdk.errors import SlackApiError

from approvals.models import SlackMessage, SlackWorkspace
from approvals.presentation import refusal_in_words
from approvals.slack import identities
from approvals.slack.api import NETWORK, NoSuchApp, SlackApp, app_for, slack_apps, workspace_of
from approvals.slack.interactions.commands import Source
from approvals.slack.rendering import ButtonValue, desk_link
from ledger.errors import LedgerError


class Refused(Exception):
    """Shown to the person who clicked, and to nobody else; with a link to ``page`` of the desk."""

    def __init__(self, text: str, page: str = "") -> None:
        super().__init__(text)
        self.page = page


def refused_by_verb(error: LedgerError) -> Refused:
    text = _("{detail}. Your click changed nothing.")
    return Refused(text.format(detail=refusal_in_words(error).rstrip(".")))


def apps_that_signed(source: Source) -> list[SlackApp]:
    return [app for app in slack_apps() if app.fingerprint in source.apps]


def check_workspace(
    source: Source, button: ButtonValue | None = None
) -> tuple[SlackApp, SlackWorkspace]:
    """The workspace of the button and its app, if Slack signed the request for that app.

    A button names the workspace of its bot: in a shared channel the person may belong to another.
    Raises ``Refused``.
    """
    signed_by = apps_that_signed(source)
    if button is not None:
        workspace = SlackWorkspace.objects.filter(team_id=button.team).first()
    else:
        workspace = workspace_of(signed_by[0], source.team) if signed_by else None
    if workspace is None:
        raise Refused(_("This workspace is not connected to Assent. Nothing was decided."))
    try:
        app = app_for(workspace)
    except NoSuchApp:
        raise Refused(
            _("Assent has no bot in this workspace any more. Nothing was decided.")
        ) from None
    except (SlackApiError, *NETWORK):
        raise Refused(
            _(
                "Slack did not tell Assent which bot belongs to this workspace. "
                "Nothing was decided: try again in a minute."
            )
        ) from None
    if app not in signed_by:
        raise Refused(_("This button belongs to another workspace. Nothing was decided."))
    return app, workspace


def check_message(workspace: SlackWorkspace, button: ButtonValue, source: Source) -> SlackMessage:
    """The message that was clicked, if it shows the button's subject and was clicked where it is.

    Raises ``Refused``.
    """
    related = ("workspace", "transaction", "question__task__skill")
    messages = SlackMessage.objects.select_related(*related)
    message = messages.filter(pk=button.message, workspace=workspace).first()
    subject = message and (message.transaction or message.question)
    if message is None or subject is None or str(subject.pk) != button.subject:
        raise Refused(_("There is no such message any more. Nothing was decided."))
    if message.channel and source.channel != message.channel:
        raise Refused(_("This button belongs to another channel. Nothing was decided."))
    if not workspace.tenants.filter(slug=subject.tenant).exists():
        text = _("This workspace does not serve {tenant} any more.")
        raise Refused(text.format(tenant=subject.tenant))
    return message


def check_person(workspace: SlackWorkspace, source: Source, *, acts: bool = True) -> User:
    """The person of the desk who is linked with the Slack user. Raises ``Refused``.

    Who ``acts`` says which workspace is theirs; a command only asks, and Slack does not send it.
    """
    person = None
    if source.home_team or not acts:  # with a click Slack always sends it
        person = identities.person_behind(workspace, source.user, source.home_team)
    if person is None:
        raise Refused(
            _(
                "Assent does not know who you are at the desk, so nothing was decided. "
                "Link your account, once."
            ),
            desk_link("slack"),
        )
    return person
