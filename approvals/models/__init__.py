"""The tables of the desk: people, their roles, and Slack."""

from __future__ import annotations

from approvals.models.people import (
    Membership,
    Notice,
    PendingChange,
    PendingState,
    Role,
    UserName,
)
from approvals.models.preferences import Preferences, Theme
from approvals.models.slack import (
    LINK_VALID,
    RISKS,
    Concern,
    SlackClick,
    SlackIdentity,
    SlackLinkRequest,
    SlackMessage,
    SlackRoute,
    SlackWorkspace,
)

__all__ = [
    "LINK_VALID",
    "RISKS",
    "Concern",
    "Membership",
    "Notice",
    "PendingChange",
    "PendingState",
    "Preferences",
    "Role",
    "SlackClick",
    "SlackIdentity",
    "SlackLinkRequest",
    "SlackMessage",
    "SlackRoute",
    "SlackWorkspace",
    "Theme",
    "UserName",
]
