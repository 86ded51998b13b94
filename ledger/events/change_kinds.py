"""Kinds of changes of accounts, and how the desk describes each.

The kinds of change stand with what they change; upper rooms and optional apps add their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ledger.errors import Sentence


class ChangeKind(StrEnum):
    """Kind of change. The audit log seals the values: they never change."""

    USER_CREATED = "user_created"
    USER_RENAMED = "user_renamed"
    EMAIL_CHANGED = "email_changed"
    EMAIL_ASKED = "email_change_asked"
    USER_ACTIVATED = "user_activated"
    USER_DEACTIVATED = "user_deactivated"
    PASSWORD_CHANGED = "password_changed"
    ROLE_GRANTED = "role_granted"
    ROLE_REVOKED = "role_revoked"
    STAFF_GRANTED = "staff_granted"
    STAFF_REVOKED = "staff_revoked"
    SUPERUSER_GRANTED = "superuser_granted"
    SUPERUSER_REVOKED = "superuser_revoked"
    PERMISSIONS_CHANGED = "permissions_changed"
    CHANGE_REQUESTED = "change_requested"
    CHANGE_DECLINED = "change_declined"
    PERSON_INVITED = "person_invited"
    ACCESS_RESET = "access_reset"
    RESET_ASKED = "password_reset_asked"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    AUTHENTICATOR_ADDED = "authenticator_added"
    AUTHENTICATOR_REMOVED = "authenticator_removed"
    RECOVERY_CODES_MADE = "recovery_codes_made"
    RECOVERY_CODE_USED = "recovery_code_used"
    COMPANY_CONNECTED = "company_connected"
    COMPANY_DISCONNECTED = "company_disconnected"
    SIGN_IN_BLOCKED = "sign_in_blocked"
    SESSIONS_ENDED = "sessions_ended"
    TENANT_ADDED = "tenant_added"
    TENANT_CHANGED = "tenant_changed"
    AGENT_ADDED = "agent_added"
    AGENT_CHANGED = "agent_changed"
    AGENT_ACTIVATED = "agent_activated"
    AGENT_DEACTIVATED = "agent_deactivated"
    WEBHOOK_CHANGED = "webhook_changed"
    WEBHOOK_SECRET_RENEWED = "webhook_secret_renewed"
    TOOL_REGISTERED = "tool_registered"
    TOOL_CHANGED = "tool_changed"
    TOOL_WITHDRAWN = "tool_withdrawn"
    TOOL_CHANGE_ASKED = "tool_change_asked"
    TOOL_CHANGE_DECLINED = "tool_change_declined"
    TOOL_PINNED = "tool_pinned"
    TOOL_HELD = "tool_held"
    TOOL_RELEASED = "tool_released"
    MCP_SERVER_ADDED = "mcp_server_added"
    MCP_SERVER_CHANGED = "mcp_server_changed"
    MCP_SERVER_REMOVED = "mcp_server_removed"
    TOOL_UNPINNED = "tool_unpinned"
    CREDENTIAL_ADDED = "credential_added"
    CREDENTIAL_CHANGED = "credential_changed"
    CREDENTIAL_REMOVED = "credential_removed"
    TOKEN_ISSUED = "token_issued"
    TOKEN_REVOKED = "token_revoked"
    TOKEN_CHANGED = "token_changed"
    OWNER_ADDED = "owner_added"
    OWNER_CHANGED = "owner_changed"
    OWNER_REMOVED = "owner_removed"
    OWNER_SECRET_RENEWED = "owner_secret_renewed"
    SKILL_ADDED = "skill_added"
    SKILL_CHANGED = "skill_changed"
    REMOTE_AGENT_ADDED = "remote_agent_added"
    REMOTE_AGENT_CHANGED = "remote_agent_changed"
    REMOTE_AGENT_PINNED = "remote_agent_pinned"
    NOTIFICATIONS_TURNED_ON = "notifications_turned_on"
    NOTIFICATIONS_TURNED_OFF = "notifications_turned_off"


# How the desk describes each, in the past tense, after the name of whoever did it.
CHANGE_DESCRIPTIONS: dict[str, str] = {
    ChangeKind.USER_CREATED: Sentence("opened an account"),
    ChangeKind.USER_RENAMED: Sentence("changed the name"),
    ChangeKind.EMAIL_CHANGED: Sentence("changed the e-mail address"),
    ChangeKind.EMAIL_ASKED: Sentence("asked for another e-mail address, and has to confirm it"),
    ChangeKind.USER_ACTIVATED: Sentence("opened the account again"),
    ChangeKind.USER_DEACTIVATED: Sentence("closed the account"),
    ChangeKind.PASSWORD_CHANGED: Sentence("changed the password"),
    ChangeKind.ROLE_GRANTED: Sentence("gave a role"),
    ChangeKind.ROLE_REVOKED: Sentence("took a role"),
    ChangeKind.STAFF_GRANTED: Sentence("let into the admin"),
    ChangeKind.STAFF_REVOKED: Sentence("shut out of the admin"),
    ChangeKind.SUPERUSER_GRANTED: Sentence("made a superuser"),
    ChangeKind.SUPERUSER_REVOKED: Sentence("no superuser any more"),
    ChangeKind.PERMISSIONS_CHANGED: Sentence("changed the permissions in the admin"),
    ChangeKind.CHANGE_REQUESTED: Sentence(
        "asked for a change, which a second operator has to confirm"
    ),
    ChangeKind.CHANGE_DECLINED: Sentence("declined a change"),
    ChangeKind.PERSON_INVITED: Sentence("made a link to choose a first password or passkey"),
    ChangeKind.ACCESS_RESET: Sentence("reset how a person signs in"),
    ChangeKind.RESET_ASKED: Sentence("was asked for a new password by e-mail"),
    ChangeKind.PASSKEY_ADDED: Sentence("added a passkey"),
    ChangeKind.PASSKEY_REMOVED: Sentence("removed a passkey"),
    ChangeKind.AUTHENTICATOR_ADDED: Sentence("added an authenticator app"),
    ChangeKind.AUTHENTICATOR_REMOVED: Sentence("removed the authenticator app"),
    ChangeKind.RECOVERY_CODES_MADE: Sentence("made new recovery codes"),
    ChangeKind.RECOVERY_CODE_USED: Sentence("signed in with a recovery code"),
    ChangeKind.COMPANY_CONNECTED: Sentence("connected the sign-in with the company"),
    ChangeKind.COMPANY_DISCONNECTED: Sentence("disconnected the sign-in with the company"),
    ChangeKind.SIGN_IN_BLOCKED: Sentence("refused attempts to sign in: too many failed"),
    ChangeKind.SESSIONS_ENDED: Sentence("signed out elsewhere"),
    ChangeKind.TENANT_ADDED: Sentence("added a tenant"),
    ChangeKind.TENANT_CHANGED: Sentence("changed a tenant"),
    ChangeKind.AGENT_ADDED: Sentence("added an agent"),
    ChangeKind.AGENT_CHANGED: Sentence("changed an agent"),
    ChangeKind.AGENT_ACTIVATED: Sentence("switched an agent on"),
    ChangeKind.AGENT_DEACTIVATED: Sentence("switched an agent off"),
    ChangeKind.WEBHOOK_CHANGED: Sentence("changed where webhooks go"),
    ChangeKind.WEBHOOK_SECRET_RENEWED: Sentence("renewed the webhook secret"),
    ChangeKind.TOOL_REGISTERED: Sentence("registered a tool"),
    ChangeKind.TOOL_CHANGED: Sentence("changed a tool"),
    ChangeKind.TOOL_WITHDRAWN: Sentence("withdrew a tool"),
    ChangeKind.TOOL_CHANGE_ASKED: Sentence(
        "asked for a change of a tool, to be confirmed by another"
    ),
    ChangeKind.TOOL_CHANGE_DECLINED: Sentence("declined a change of a tool"),
    ChangeKind.TOOL_PINNED: Sentence("pinned what the owner of a tool publishes"),
    ChangeKind.TOOL_HELD: Sentence("held a tool: what its owner publishes has changed"),
    ChangeKind.TOOL_RELEASED: Sentence("released a tool that was held"),
    ChangeKind.MCP_SERVER_ADDED: Sentence("registered an MCP server"),
    ChangeKind.MCP_SERVER_CHANGED: Sentence("changed where an MCP server is"),
    ChangeKind.MCP_SERVER_REMOVED: Sentence("removed an MCP server"),
    ChangeKind.TOOL_UNPINNED: Sentence("no longer holds the owner of a tool to what it publishes"),
    ChangeKind.CREDENTIAL_ADDED: Sentence("added a credential for tools elsewhere"),
    ChangeKind.CREDENTIAL_CHANGED: Sentence("changed a credential for tools elsewhere"),
    ChangeKind.CREDENTIAL_REMOVED: Sentence("removed a credential for tools elsewhere"),
    ChangeKind.TOKEN_ISSUED: Sentence("issued a token"),
    ChangeKind.TOKEN_REVOKED: Sentence("revoked a token"),
    ChangeKind.TOKEN_CHANGED: Sentence("changed what a token may do"),
    ChangeKind.OWNER_ADDED: Sentence("added the webhook of an owning service"),
    ChangeKind.OWNER_CHANGED: Sentence("changed the webhook of an owning service"),
    ChangeKind.OWNER_REMOVED: Sentence("removed the webhook of an owning service"),
    ChangeKind.OWNER_SECRET_RENEWED: Sentence("renewed the webhook secret of an owning service"),
    ChangeKind.SKILL_ADDED: Sentence("added a skill"),
    ChangeKind.SKILL_CHANGED: Sentence("changed a skill"),
    ChangeKind.REMOTE_AGENT_ADDED: Sentence("registered a remote agent"),
    ChangeKind.REMOTE_AGENT_CHANGED: Sentence("changed a remote agent"),
    ChangeKind.REMOTE_AGENT_PINNED: Sentence("pinned the card of a remote agent"),
    ChangeKind.NOTIFICATIONS_TURNED_ON: Sentence("turned notifications on"),
    ChangeKind.NOTIFICATIONS_TURNED_OFF: Sentence("turned notifications off"),
}


def describe_changes(descriptions: Mapping[Any, str]) -> None:
    """Add the kinds of change of an upper room or an optional app, in ``AppConfig.ready()``."""
    CHANGE_DESCRIPTIONS.update(descriptions)
