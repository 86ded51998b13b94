"""The tables of the desk: people, their roles, and Slack."""

from __future__ import annotations

from approvals.models.notifications import (
    About,
    Mail,
    NotificationSettings,
    PushSubscription,
    ShownNotification,
)
from approvals.models.people import (
    Membership,
    Notice,
    PendingChange,
    PendingState,
    Role,
    UserName,
)
from approvals.models.preferences import Preferences, Theme
from approvals.models.sign_in import CompanyIdentity, LinkPurpose, SignInLink
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
    "About",
    "CompanyIdentity",
    "Concern",
    "LinkPurpose",
    "Mail",
    "Membership",
    "Notice",
    "NotificationSettings",
    "PendingChange",
    "PendingState",
    "Preferences",
    "PushSubscription",
    "Role",
    "ShownNotification",
    "SignInLink",
    "SlackClick",
    "SlackIdentity",
    "SlackLinkRequest",
    "SlackMessage",
    "SlackRoute",
    "SlackWorkspace",
    "Theme",
    "UserName",
]
