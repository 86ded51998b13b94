"""What is missing before Slack works, in the order in which one would mend it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from approvals.models import Membership, Role, SlackIdentity, SlackRoute, SlackWorkspace
from approvals.slack.api.calls import NETWORK, error_of
from approvals.slack.api.credentials import SlackApp, apps, client_of
from approvals.slack.api.workspaces import app_for

NEEDED = ("chat:write", "commands", "im:write", "users:read", "users:read.email")
# Without them a post whose outcome got lost is made again.
HISTORY = ("channels:history", "groups:history", "im:history")


@dataclass(frozen=True, slots=True)
class Finding:
    """``level`` is ok, hint (works, but) or missing (does not)."""

    level: str
    text: str


def inspect() -> Iterator[Finding]:
    if not apps():
        yield Finding("missing", "ASSENT_SLACK_BOT_TOKEN is not set: nothing goes to Slack.")
        return
    yield from _settings()
    for number, app in enumerate(apps(), 1):
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
    who = f"Bot token {number}"
    if not app.bot_token.startswith("xoxb-"):
        yield Finding("missing", f"{who} is no bot token: it begins with xoxb-.")
    try:
        answer: Any = client_of(app).auth_test()
    except SlackApiError as refusal:
        yield Finding("missing", f"{who} is refused by Slack: {error_of(refusal)}.")
        return
    except NETWORK as failure:
        yield Finding("missing", f"{who} could not be tried, Slack cannot be reached: {failure}")
        return
    yield Finding("ok", f"{who} is @{answer['user']} of {answer['team']} ({answer['team_id']}).")
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
        said = ", ".join(missing)
        yield Finding("missing", f"The app lacks {said}: add them and install it again.")
    if missing := [scope for scope in HISTORY if scope not in given]:
        yield Finding(
            "hint",
            f"Without {', '.join(missing)} a message whose outcome got lost is posted twice there.",
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
    """Whether the bot may post there; asked of Slack, where the scopes allow it."""
    if not channel.startswith(("C", "G")):
        yield Finding("missing", f"{channel} is no channel id: it begins with C.")
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
    found = answer["channel"]
    if found.get("is_archived"):
        yield Finding("missing", f"#{found.get('name')} is archived.")
    elif not found.get("is_member"):
        yield Finding("missing", f"The bot is not in #{found.get('name')}: /invite it there.")
    else:
        yield Finding("ok", f"Messages go to #{found.get('name')} in {workspace.name}.")


def _people(workspace: SlackWorkspace, tenant: str) -> Iterator[Finding]:
    approvers = Membership.objects.filter(tenant=tenant, role=Role.APPROVER, user__is_active=True)
    linked = SlackIdentity.objects.filter(
        workspace=workspace, user__in=approvers.values("user")
    ).count()
    every = approvers.values("user").distinct().count()
    text = f"{linked} of {every} approvers of {tenant} are linked to {workspace.name}."
    yield Finding("ok" if linked else "hint", text)


def _approver(route: SlackRoute) -> Iterator[Finding]:
    if route.approver is None:
        return
    linked = SlackIdentity.objects.filter(workspace=route.workspace, user=route.approver)
    if not linked.exists():
        yield Finding("missing", f"{route.approver} of a route is not linked to Slack.")
