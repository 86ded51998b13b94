"""The Slack apps that the settings name: one bot token per workspace."""

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
        """Identifies the app where the token must not be written."""
        return hashlib.sha256(self.bot_token.encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"SlackApp({self.fingerprint})"


def is_configured() -> bool:
    return settings.HAS_SLACK or bool(settings.SLACK_BOT_TOKENS)


def slack_apps() -> list[SlackApp]:
    """One app for each bot token."""
    secrets, app_tokens = settings.SLACK_SIGNING_SECRETS, settings.SLACK_APP_TOKENS
    return [
        SlackApp(token, _nth(secrets, number), _nth(app_tokens, number))
        for number, token in enumerate(settings.SLACK_BOT_TOKENS)
    ]


def _nth(values: list[str], number: int) -> str:
    """A single value applies to all apps; otherwise each app has its own."""
    if len(values) == 1:
        return str(values[0])
    return str(values[number]) if number < len(values) else ""


def signed_by(body: bytes, headers: Mapping[str, str]) -> list[SlackApp]:
    """The apps with whose secret this body was signed in the last five minutes.

    Workspaces that use the same app have the same secret. Empty: it does not come from Slack.
    """
    return [app for app in slack_apps() if app.signing_secret and _is_signed(app, body, headers)]


def _is_signed(app: SlackApp, body: bytes, headers: Mapping[str, str]) -> bool:
    try:
        return SignatureVerifier(app.signing_secret).is_valid_request(body, dict(headers))
    except (ValueError, TypeError, OverflowError):
        return False  # a timestamp or body that Slack would not send


def client_of(app: SlackApp, timeout_s: int = CALL_S) -> WebClient:
    """A client that never retries: after a broken connection that could post a second message."""
    return WebClient(
        token=app.bot_token,
        base_url=settings.SLACK_API_URL,
        timeout=timeout_s,
        retry_handlers=[],
        user_agent_prefix="Assent",
    )


_team_of_token: dict[str, str] = {}


def team_of(app: SlackApp) -> str:
    """The id of the token's workspace. Asks Slack once per process; raises what the client does."""
    if app.bot_token not in _team_of_token:
        answer: Any = client_of(app, timeout_s=2).auth_test()
        _team_of_token[app.bot_token] = str(answer["team_id"])
    return _team_of_token[app.bot_token]


def app_of(team_id: str, among: list[SlackApp] | None = None) -> SlackApp:
    """The app of a workspace. An app whose token does not work is passed over.

    Raises ``NoSuchApp``; or what the client raised, if the app may be one that was passed over.
    """
    trouble: Exception | None = None
    known_first = sorted(
        slack_apps() if among is None else among,
        key=lambda app: app.bot_token not in _team_of_token,
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
