"""Links between Slack users and people of the desk. Linking takes a confirmation on both sides."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core import signing
from django.db import IntegrityError
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils.translation import gettext as _, gettext_noop
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, Block

from approvals import people
from approvals.http.middleware import roles_of
from approvals.models import LINK_VALID, SlackIdentity, SlackLinkRequest, SlackWorkspace
from approvals.people import name_of, principal_of
from approvals.slack.api import NoSuchApp, Unreachable, app_for, call_slack, error_of
from approvals.slack.changes import SlackChange
from approvals.slack.languages import in_language_of
from approvals.slack.rendering import as_dicts, desk_link, escaped, open_button, regular, rich
from ledger.events.outbox import NotNow, Owed
from ledger.models import Delivery, Event
from ledger.principals import Principal, Surface

SALT = "approvals.slack.link"
ASKED_BY_PERSON = gettext_noop("{person} asked at the desk to be linked with you.")
ASKED_BY_ANOTHER = gettext_noop("{who} asked to link you with the account of {person}.")


class NotLinked(Exception):
    """The account could not be linked; the text says why, and what to do."""


def person_behind(workspace: SlackWorkspace, slack_user_id: str, home_team: str) -> User | None:
    """The person who is linked with this Slack user; ``None`` also for a closed account."""
    identity = (
        SlackIdentity.objects.select_related("user")
        .filter(workspace=workspace, slack_user_id=slack_user_id, user__is_active=True)
        .first()
    )
    if identity is None:
        return None
    home = identity.home_team_id or workspace.team_id
    return identity.user if home_team in {"", home} else None


def workspaces_for(user: User) -> list[SlackWorkspace]:
    """The workspaces that serve one of the person's tenants."""
    workspaces = SlackWorkspace.objects.filter(tenants__in=roles_of(user).keys())
    return list(workspaces.distinct().order_by("name"))


def ask_to_link(user: User, workspace: SlackWorkspace) -> None:
    """Send a one-time link, by direct message, to the Slack user with this person's e-mail address.

    The address is that of the account, which only operators can set. Raises ``NotLinked``.
    """
    if not user.email:
        raise NotLinked(_("Your account has no e-mail address: an operator can link you."))
    try:
        _send_link(user, workspace)
    except SlackApiError as refusal:
        if error_of(refusal) == "users_not_found":
            text = _("Nobody in {workspace} has the address {email}. An operator can link you.")
            text = text.format(workspace=workspace.name, email=user.email)
            raise NotLinked(text) from None
        text = _("Slack refused: {error}. `manage.py slack_check` says what is missing.")
        raise NotLinked(text.format(error=error_of(refusal))) from None
    except (Unreachable, NotNow, NoSuchApp, OSError) as failure:
        text = _("{failure} Nothing was sent: try again later.")
        raise NotLinked(text.format(failure=failure)) from None


def _send_link(user: User, workspace: SlackWorkspace) -> None:
    app = app_for(workspace)
    slack_user: dict[str, Any] = call_slack(app, "users.lookupByEmail", email=user.email)["user"]
    if slack_user.get("is_bot") or slack_user.get("deleted"):
        text = _("The address {email} is not a person's in {workspace}.")
        raise NotLinked(text.format(email=user.email, workspace=workspace.name))
    request = SlackLinkRequest.objects.create(
        user=user,
        workspace=workspace,
        slack_user_id=slack_user["id"],
        home_team_id=str(slack_user.get("team_id") or ""),
    )
    _send(request, ASKED_BY_PERSON, person=name_of(user))


def _send(request: SlackLinkRequest, why: str, **names: str) -> None:
    """``why`` is an English text with ``names``; it is sent in the person's language."""
    app = app_for(request.workspace)
    url = desk_link("slack-confirm", signing.dumps(request.pk, salt=SALT))
    with in_language_of(request.user, request.workspace):
        text = _(why).format(**names) + " " + _("If that is you, open the link.")
        terms = _(
            "It is good once, for {minutes} minutes. If you did not ask for it, do nothing."
        ).format(minutes=minutes(LINK_VALID))
        button = open_button(url, _("Link my account"))
    blocks: list[Block] = [rich(regular(f"{text} {terms}")), ActionsBlock(elements=[button])]
    opened = call_slack(app, "conversations.open", users=request.slack_user_id)
    call_slack(
        app,
        "chat.postMessage",
        channel=opened["channel"]["id"],
        text=escaped(text),
        parse="none",
        blocks=as_dicts(blocks),
    )


def minutes(span: timedelta) -> int:
    return int(span.total_seconds() // 60)


def link_request_of(token: str, user: User) -> SlackLinkRequest:
    """The request of a one-time link, if it was made for this person. Raises ``NotLinked``."""
    try:
        pk = signing.loads(token, salt=SALT, max_age=LINK_VALID)
    except signing.BadSignature:
        raise NotLinked(_("The link has lapsed or is damaged. Ask for a new one.")) from None
    request = SlackLinkRequest.objects.select_related("workspace").filter(pk=pk, user=user).first()
    if request is None:
        raise NotLinked(_("The link was sent for another person. Nothing was linked."))
    if request.used_at is not None:
        raise NotLinked(_("The link was used before. Nothing was changed."))
    return request


def link_account(token: str, user: User) -> SlackIdentity:
    """Link the person as the one-time link says, which is used up then. Raises ``NotLinked``."""
    request = link_request_of(token, user)
    with atomic():
        if not SlackLinkRequest.objects.filter(pk=request.pk, used_at=None).update(used_at=Now()):
            raise NotLinked(_("The link was used before. Nothing was changed."))
        try:
            with atomic():
                identity, _created = SlackIdentity.objects.update_or_create(
                    workspace=request.workspace,
                    user=user,
                    defaults={
                        "slack_user_id": request.slack_user_id,
                        "home_team_id": request.home_team_id,
                        "linked_by": str(principal_of(user)),
                    },
                )
                people.record_change(
                    user,
                    SlackChange.LINKED,
                    by=principal_of(user),
                    via=Surface.WEB,
                    slack_user=request.slack_user_id,
                    workspace=request.workspace.name,
                )
        except IntegrityError:
            taken = _("{user} is linked to somebody else. An operator can change it.")
        else:
            return identity
    raise NotLinked(taken.format(user=request.slack_user_id))


def unlink_account(user: User, workspace: SlackWorkspace, *, by: Principal, via: Surface) -> None:
    with atomic():
        for identity in SlackIdentity.objects.filter(user=user, workspace=workspace):
            identity.delete()
            people.record_change(
                user,
                SlackChange.UNLINKED,
                by=by,
                via=via,
                slack_user=identity.slack_user_id,
                workspace=workspace.name,
            )


def propose_link(
    user: User,
    workspace: SlackWorkspace,
    slack_user_id: str,
    home_team_id: str,
    *,
    by: Principal,
    via: Surface,
) -> SlackLinkRequest:
    """Send a one-time link to the Slack user whom an operator proposes for this person.

    It goes through the outbox. Only this person can use it: signed in at the desk.
    """
    with atomic():
        request = SlackLinkRequest.objects.create(
            user=user, workspace=workspace, slack_user_id=slack_user_id, home_team_id=home_team_id
        )
        people.record_change(
            user,
            SlackChange.LINK_ASKED,
            by=by,
            via=via,
            also_owed=[(CHANNEL, str(request.pk))],
            slack_user=slack_user_id,
            workspace=workspace.name,
        )
    return request


CHANNEL = "slack_link"


class LinkChannel:
    """Sends the one-time link that an operator asked for to the Slack user."""

    name = CHANNEL

    def wants(self, kind: str) -> bool:
        return False  # each event names its recipient

    def address(self, event: Event) -> Iterable[Owed]:
        return ()

    def send(self, delivery: Delivery) -> None:
        related = SlackLinkRequest.objects.select_related("workspace", "user")
        request = related.filter(pk=int(delivery.recipient), used_at=None).first()
        if request is not None:
            asked_by = delivery.event.principal_name
            name = name_of(request.user)
            _send(request, ASKED_BY_ANOTHER, who=asked_by, person=name)
