"""Setting Slack up: connect workspaces with tenants, and check what is still missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.transaction import atomic
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from approvals.models import Membership, Role, SlackIdentity, SlackRoute, SlackWorkspace
from approvals.slack.api import (
    NETWORK,
    SlackApp,
    app_for,
    client_of,
    connect_workspace,
    error_of,
    slack_apps,
)
from approvals.slack.changes import SlackChange
from ledger.events import command_principal, record_change
from ledger.models import Tenant
from ledger.principals import Surface

# The scopes of the bot.
NEEDED = ("chat:write", "commands", "im:write", "users:read", "users:read.email")
# Without these a message is posted twice when Slack's answer to the first post was lost.
HISTORY = ("channels:history", "groups:history", "im:history")


class NotConnected(Exception):
    """No workspace was connected; the text says why, and what to do."""


def connect(
    tenant: Tenant, *, team: str = "", channel: str = "", warn: Callable[[str], object]
) -> list[SlackWorkspace]:
    """Connect the workspaces of the bot tokens with a tenant, and add a route to ``channel``.

    ``team`` picks one of several workspaces. Whatever exists already stays as it is. A token that
    Slack refuses is passed to ``warn``; if it is the only one, raises ``NotConnected``.
    """
    if not slack_apps():
        raise NotConnected("ASSENT_SLACK_BOT_TOKEN is not set. docs/slack.md says how.")
    if len(slack_apps()) > 1 and not team:
        raise NotConnected("There are several bot tokens: say which workspace, --team T….")
    connected = [workspace for workspace in _workspaces(warn) if team in {"", workspace.team_id}]
    if not connected:
        raise NotConnected("No bot token is for that workspace.")
    for workspace in connected:
        _serve(workspace, tenant)
        if channel:
            _add_route(workspace, tenant, channel)
    return connected


def _workspaces(warn: Callable[[str], object]) -> Iterator[SlackWorkspace]:
    for app in slack_apps():
        try:
            yield connect_workspace(app)
        except (SlackClientError, *NETWORK) as failure:
            if len(slack_apps()) == 1:
                raise NotConnected(f"Slack refused the bot token: {failure}") from failure
            warn(f"One bot token is left out, Slack refused it: {failure}")


def _serve(workspace: SlackWorkspace, tenant: Tenant) -> None:
    with atomic():
        if not workspace.tenants.filter(pk=tenant.pk).exists():
            workspace.tenants.add(tenant)
            subject = f"slack_workspace:{workspace.pk}"
            _record(subject, SlackChange.WORKSPACE_CONNECTED, tenant, str(workspace))


def _add_route(workspace: SlackWorkspace, tenant: Tenant, channel: str) -> None:
    with atomic():
        route, is_new = SlackRoute.objects.get_or_create(
            workspace=workspace, tenant=tenant, channel=channel
        )
        if is_new:
            subject = f"slack_route:{route.pk}"
            _record(subject, SlackChange.ROUTE_ADDED, tenant, str(route))


def _record(subject: str, kind: SlackChange, tenant: Tenant, name: str) -> None:
    by = command_principal()
    record_change(subject, kind, tenant=tenant.slug, by=by, via=Surface.COMMAND, name=name)


# --- what is missing -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """``level`` is ok, hint (it works, but could work better) or missing (it does not work)."""

    level: str
    text: str


def check() -> Iterator[Finding]:
    """Findings: what works and what is missing, in the order in which to put it right."""
    if not slack_apps():
        yield Finding("missing", "ASSENT_SLACK_BOT_TOKEN is not set: nothing goes to Slack.")
        return
    yield from _settings()
    for number, app in enumerate(slack_apps(), 1):
        yield from _app(number, app)
    for workspace in SlackWorkspace.objects.order_by("name"):
        yield from _workspace(workspace)


def _settings() -> Iterator[Finding]:
    if settings.SLACK_TRANSPORT not in {"http", "socket"}:
        yield Finding("missing", "ASSENT_SLACK_TRANSPORT is neither http nor socket.")
    elif settings.SLACK_TRANSPORT == "http":
        yield from _for_http()
    elif not settings.SLACK_APP_TOKENS:
        yield Finding("missing", "Socket Mode needs ASSENT_SLACK_APP_TOKEN (xapp-…).")
    for name in ("SIGNING_SECRETS", "APP_TOKENS"):
        given = len(getattr(settings, f"SLACK_{name}"))
        if given > 1 and given != len(settings.SLACK_BOT_TOKENS):
            variable = f"ASSENT_SLACK_{name.removesuffix('S')}"
            yield Finding("missing", f"{variable} needs one value, or one for each bot token.")


def _for_http() -> Iterator[Finding]:
    if not settings.SLACK_SIGNING_SECRETS:
        yield Finding("missing", "ASSENT_SLACK_SIGNING_SECRET is not set: clicks are refused.")
    if settings.PUBLIC_URL.startswith("https://"):
        url = f"{settings.PUBLIC_URL}/slack/interactions"
        yield Finding("ok", f"Slack calls {url}: enter it under Interactivity.")
    else:
        yield Finding(
            "missing",
            f"ASSENT_PUBLIC_URL is {settings.PUBLIC_URL}, which Slack cannot call. "
            "Use Socket Mode (ASSENT_SLACK_TRANSPORT=socket), or an https address.",
        )


def _app(number: int, app: SlackApp) -> Iterator[Finding]:
    token = f"Bot token {number}"
    if not app.bot_token.startswith("xoxb-"):
        yield Finding("missing", f"{token} is no bot token: those begin with xoxb-.")
    try:
        answer: Any = client_of(app).auth_test()
    except SlackApiError as refusal:
        yield Finding("missing", f"{token} is refused by Slack: {error_of(refusal)}.")
        return
    except NETWORK as failure:
        yield Finding("missing", f"{token} could not be tried, Slack cannot be reached: {failure}")
        return
    yield Finding("ok", f"{token} is @{answer['user']} of {answer['team']} ({answer['team_id']}).")
    yield from _scopes(answer)
    if not SlackWorkspace.objects.filter(team_id=answer["team_id"], tenants__isnull=False).exists():
        yield Finding(
            "missing",
            f"{answer['team']} is not connected: manage.py slack_connect --tenant … --channel C…",
        )
    if settings.SLACK_TRANSPORT == "socket" and app.app_token:
        yield from _app_token(number, app)


def _scopes(answer: Any) -> Iterator[Finding]:
    headers = {str(name).lower(): value for name, value in answer.headers.items()}
    given = {scope.strip() for scope in str(headers.get("x-oauth-scopes", "")).split(",")}
    if missing := [scope for scope in NEEDED if scope not in given]:
        scopes = ", ".join(missing)
        yield Finding("missing", f"The app lacks {scopes}: add them and install it again.")
    if missing := [scope for scope in HISTORY if scope not in given]:
        yield Finding(
            "hint",
            f"Without {', '.join(missing)} a message is posted twice if Slack's answer gets lost.",
        )


def _app_token(number: int, app: SlackApp) -> Iterator[Finding]:
    try:
        client = WebClient(base_url=settings.SLACK_API_URL, retry_handlers=[], timeout=8)
        client.apps_connections_open(app_token=app.app_token)
    except SlackApiError as refusal:
        yield Finding("missing", f"App token {number} opens no socket: {error_of(refusal)}.")
    except NETWORK as failure:
        yield Finding("missing", f"App token {number} could not be tried: {failure}")
    else:
        yield Finding("ok", f"App token {number} opens a socket.")


def _workspace(workspace: SlackWorkspace) -> Iterator[Finding]:
    for tenant in workspace.tenants.order_by("slug"):
        routes = list(SlackRoute.objects.filter(workspace=workspace, tenant=tenant))
        if not routes:
            yield Finding("missing", f"{workspace.name} has no route for {tenant.slug}.")
        for channel in sorted(_channels(routes)):
            yield from _channel(workspace, channel)
        yield from _people(workspace, tenant.slug)
        for route in routes:
            yield from _approver(route)


def _channels(routes: list[SlackRoute]) -> set[str]:
    return {name for route in routes for name in (route.channel, route.escalate_to) if name}


def _channel(workspace: SlackWorkspace, channel: str) -> Iterator[Finding]:
    """Findings on posting to the channel, as far as the bot's scopes let it ask Slack."""
    if not channel.startswith(("C", "G")):
        yield Finding("missing", f"{channel} is no channel id: those begin with C.")
        return
    try:
        answer: Any = client_of(app_for(workspace)).conversations_info(channel=channel)
    except SlackApiError as refusal:
        level = "hint" if error_of(refusal) == "missing_scope" else "missing"
        yield Finding(level, f"Channel {channel} could not be looked at: {error_of(refusal)}.")
        return
    except NETWORK as failure:
        yield Finding("missing", f"Channel {channel} could not be looked at: {failure}")
        return
    properties = answer["channel"]
    name = properties.get("name")
    if properties.get("is_archived"):
        yield Finding("missing", f"#{name} is archived.")
    elif not properties.get("is_member"):
        yield Finding("missing", f"The bot is not in #{name}: /invite it there.")
    else:
        yield Finding("ok", f"Messages go to #{name} in {workspace.name}.")


def _people(workspace: SlackWorkspace, tenant: str) -> Iterator[Finding]:
    approvers = Membership.objects.filter(tenant=tenant, role=Role.APPROVER, user__is_active=True)
    linked = SlackIdentity.objects.filter(
        workspace=workspace, user__in=approvers.values("user")
    ).count()
    total = approvers.values("user").distinct().count()
    text = f"{linked} of {total} approvers of {tenant} are linked to {workspace.name}."
    yield Finding("ok" if linked else "hint", text)


def _approver(route: SlackRoute) -> Iterator[Finding]:
    if route.approver is None:
        return
    linked = SlackIdentity.objects.filter(workspace=route.workspace, user=route.approver)
    if not linked.exists():
        yield Finding("missing", f"{route.approver} of a route is not linked to Slack.")
