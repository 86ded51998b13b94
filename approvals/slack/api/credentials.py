"""The Slack apps that the settings name: one bot token a workspace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from django.conf import settings
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier

CALL_S = 8  # seconds that one call may take


class NoSuchApp(Exception):
    """No bot token of the settings belongs to that workspace."""


@dataclass(frozen=True, slots=True)
class SlackApp:
    """One installation: the bot of one workspace."""

    bot_token: str
    signing_secret: str = ""
    app_token: str = ""

    @property
    def fingerprint(self) -> str:
        """Names it where the token must not be written."""
        return hashlib.sha256(self.bot_token.encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"SlackApp({self.fingerprint})"


def is_configured() -> bool:
    return bool(settings.SLACK_BOT_TOKENS)


def apps() -> list[SlackApp]:
    secrets, app_tokens = settings.SLACK_SIGNING_SECRETS, settings.SLACK_APP_TOKENS
    return [
        SlackApp(token, _nth(secrets, number), _nth(app_tokens, number))
        for number, token in enumerate(settings.SLACK_BOT_TOKENS)
    ]


def _nth(values: list[str], number: int) -> str:
    """One value stands for all; otherwise each app has its own."""
    if len(values) == 1:
        return str(values[0])
    return str(values[number]) if number < len(values) else ""


def signed_by(body: bytes, headers: Mapping[str, str]) -> list[SlackApp]:
    """The apps in whose name Slack signed this body in the last five minutes.

    Several workspaces may have the same app. Empty: it does not come from Slack.
    """
    return [app for app in apps() if app.signing_secret and _is_signed(app, body, headers)]


def _is_signed(app: SlackApp, body: bytes, headers: Mapping[str, str]) -> bool:
    try:
        return SignatureVerifier(app.signing_secret).is_valid_request(body, dict(headers))
    except (ValueError, TypeError, OverflowError):
        return False  # no number, no UTF-8, no ASCII: not Slack


def client_of(app: SlackApp, timeout_s: int = CALL_S) -> WebClient:
    """The SDK would send again by itself when a connection breaks: a second message, perhaps."""
    return WebClient(
        token=app.bot_token,
        base_url=settings.SLACK_API_URL,
        timeout=timeout_s,
        retry_handlers=[],
        user_agent_prefix="Assent",
    )


_team_of_token: dict[str, str] = {}


def team_of(app: SlackApp) -> str:
    """The workspace that the token is for; asked of Slack once per process. Raises as calls do."""
    if app.bot_token not in _team_of_token:
        answer: Any = client_of(app, timeout_s=2).auth_test()
        _team_of_token[app.bot_token] = str(answer["team_id"])
    return _team_of_token[app.bot_token]


def app_of(team_id: str, among: list[SlackApp] | None = None) -> SlackApp:
    """The app of a workspace. One that is out of order stands in the way of no other.

    Raises ``NoSuchApp``; as calls do, if it may be one of which Slack could not be asked.
    """
    trouble: Exception | None = None
    known_first = sorted(
        apps() if among is None else among, key=lambda app: app.bot_token not in _team_of_token
    )
    for app in known_first:
        try:
            if team_of(app) == team_id:
                return app
        except (SlackApiError, OSError, HTTPException) as failure:
            trouble = failure
    raise trouble or NoSuchApp(
        f"No bot token in ASSENT_SLACK_BOT_TOKEN is for the workspace {team_id}: "
        "`manage.py slack_check` says which there are."
    )
