"""The tables of the desk: people, their roles, and Slack."""

from __future__ import annotations

from approvals.models.people import (
    Membership,
    Notice,
    PendingChange,
    PendingState,
    Role,
    SlackClick,
    SlackIdentity,
    SlackLinkRequest,
    SlackMessage,
    SlackRoute,
    SlackWorkspace,
    UserName,
)

__all__ = [
    "Membership",
    "Notice",
    "PendingChange",
    "PendingState",
    "Role",
    "SlackClick",
    "SlackIdentity",
    "SlackLinkRequest",
    "SlackMessage",
    "SlackRoute",
    "SlackWorkspace",
    "UserName",
]
