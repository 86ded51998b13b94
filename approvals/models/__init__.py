"""The tables of the desk: people, their roles, sign-in and notices, and Slack."""

from __future__ import annotations

from approvals.models.notifications import (
    About,
    Mail,
    NotificationSettings,
    PushSubscription,
    ShownNotification,
)
from approvals.models.pace import Pace
from approvals.models.people import (
    Membership,
    Notice,
    Role,
    UserName,
)
from approvals.models.preferences import Preferences, SavedView, Theme, ViewPlace, Visit
from approvals.models.set_aside import LAST_PART, LEAST_LEFT, SetAside
from approvals.models.sign_in import (
    AuthenticatorApp,
    CompanyIdentity,
    LinkPurpose,
    Passkey,
    RecoveryCodes,
    SignInLink,
    UserSession,
)
from approvals.models.slack import (
    LINK_VALID,
    RISKS,
    Concern,
    SlackCommand,
    SlackIdentity,
    SlackLinkRequest,
    SlackMessage,
    SlackRoute,
    SlackWorkspace,
)

__all__ = [
    "LAST_PART",
    "LEAST_LEFT",
    "LINK_VALID",
    "RISKS",
    "About",
    "AuthenticatorApp",
    "CompanyIdentity",
    "Concern",
    "LinkPurpose",
    "Mail",
    "Membership",
    "Notice",
    "NotificationSettings",
    "Pace",
    "Passkey",
    "Preferences",
    "PushSubscription",
    "RecoveryCodes",
    "Role",
    "SavedView",
    "SetAside",
    "ShownNotification",
    "SignInLink",
    "SlackCommand",
    "SlackIdentity",
    "SlackLinkRequest",
    "SlackMessage",
    "SlackRoute",
    "SlackWorkspace",
    "Theme",
    "UserName",
    "UserSession",
    "ViewPlace",
    "Visit",
]
