"""Kinds of changes of accounts, and how the desk describes each.

The kinds of change stand with what they change; upper rooms and optional apps add their own.
"""

from __future__ import annotations

from django.db.models import TextChoices

from ledger.errors import Sentence


class ChangeKind(TextChoices):
    """Kind of change, and how the desk describes it after the name of whoever did it.

    The audit log seals the values: they never change.
    """

    USER_CREATED = "user_created", Sentence("opened an account")
    USER_RENAMED = "user_renamed", Sentence("changed the name")
    EMAIL_CHANGED = "email_changed", Sentence("changed the e-mail address")
    EMAIL_ASKED = (
        "email_change_asked",
        Sentence("asked for another e-mail address, and has to confirm it"),
    )
    USER_ACTIVATED = "user_activated", Sentence("opened the account again")
    USER_DEACTIVATED = "user_deactivated", Sentence("closed the account")
    PASSWORD_CHANGED = "password_changed", Sentence("changed the password")
    ROLE_GRANTED = "role_granted", Sentence("gave a role")
    ROLE_REVOKED = "role_revoked", Sentence("took a role")
    STAFF_GRANTED = "staff_granted", Sentence("let into the admin")
    STAFF_REVOKED = "staff_revoked", Sentence("shut out of the admin")
    SUPERUSER_GRANTED = "superuser_granted", Sentence("made a superuser")
    SUPERUSER_REVOKED = "superuser_revoked", Sentence("no superuser any more")
    PERMISSIONS_CHANGED = "permissions_changed", Sentence("changed the permissions in the admin")
    CHANGE_REQUESTED = (
        "change_requested",
        Sentence("asked for a change, which a second operator has to confirm"),
    )
    CHANGE_DECLINED = "change_declined", Sentence("declined a change")
    ALONE_READ = "alone_read", Sentence("read a change that the only operator had made")
    PERSON_INVITED = "person_invited", Sentence("made a link to choose a first password or passkey")
    ACCESS_RESET = "access_reset", Sentence("reset how a person signs in")
    RESET_ASKED = "password_reset_asked", Sentence("was asked for a new password by e-mail")
    PASSKEY_ADDED = "passkey_added", Sentence("added a passkey")
    PASSKEY_REMOVED = "passkey_removed", Sentence("removed a passkey")
    SIGNING_KEY_ENROLLED = "signing_key_enrolled", Sentence("let a passkey sign decisions")
    SIGNING_KEY_ENDED = "signing_key_ended", Sentence("ended a key that signs decisions")
    AUTHENTICATOR_ADDED = "authenticator_added", Sentence("added an authenticator app")
    AUTHENTICATOR_REMOVED = "authenticator_removed", Sentence("removed the authenticator app")
    RECOVERY_CODES_MADE = "recovery_codes_made", Sentence("made new recovery codes")
    RECOVERY_CODE_USED = "recovery_code_used", Sentence("signed in with a recovery code")
    COMPANY_CONNECTED = "company_connected", Sentence("connected the sign-in with the company")
    COMPANY_DISCONNECTED = (
        "company_disconnected",
        Sentence("disconnected the sign-in with the company"),
    )
    SIGN_IN_BLOCKED = "sign_in_blocked", Sentence("refused attempts to sign in: too many failed")
    SESSIONS_ENDED = "sessions_ended", Sentence("signed out elsewhere")
    TENANT_ADDED = "tenant_added", Sentence("added a tenant")
    TENANT_CHANGED = "tenant_changed", Sentence("changed a tenant")
    AGENT_ADDED = "agent_added", Sentence("added an agent")
    AGENT_CHANGED = "agent_changed", Sentence("changed an agent")
    AGENT_ACTIVATED = "agent_activated", Sentence("switched an agent on")
    AGENT_DEACTIVATED = "agent_deactivated", Sentence("switched an agent off")
    WEBHOOK_CHANGED = "webhook_changed", Sentence("changed where webhooks go")
    WEBHOOK_SECRET_RENEWED = "webhook_secret_renewed", Sentence("renewed the webhook secret")
    TOOL_REGISTERED = "tool_registered", Sentence("registered a tool")
    TOOL_CHANGED = "tool_changed", Sentence("changed a tool")
    TOOL_WITHDRAWN = "tool_withdrawn", Sentence("withdrew a tool")
    TOOL_CHANGE_ASKED = (
        "tool_change_asked",
        Sentence("asked for a change of a tool, to be confirmed by another"),
    )
    TOOL_CHANGE_DECLINED = "tool_change_declined", Sentence("declined a change of a tool")
    TOOL_PINNED = "tool_pinned", Sentence("pinned what the owner of a tool publishes")
    # In older histories: a hold is a brake now.
    TOOL_HELD = "tool_held", Sentence("held a tool: what its owner publishes has changed")
    TOOL_RELEASED = "tool_released", Sentence("released a tool that was held")
    RULES_ACTIVATED = "rules_activated", Sentence("activated rules about who signs what")
    RULES_ASKED = "rules_asked", Sentence("asked for other rules, to be confirmed by another")
    RULES_DECLINED = "rules_declined", Sentence("declined other rules")
    GROUP_MADE = "group_made", Sentence("made a group of people who sign")
    GROUP_MEMBER_ADDED = "group_member_added", Sentence("added somebody to a group")
    GROUP_MEMBER_REMOVED = "group_member_removed", Sentence("took somebody out of a group")
    GROUP_CHANGE_ASKED = (
        "group_change_asked",
        Sentence("asked to add somebody to a group, to be confirmed by another"),
    )
    GROUP_CHANGE_DECLINED = (
        "group_change_declined",
        Sentence("declined to add somebody to a group"),
    )
    GRANT_GIVEN = "grant_given", Sentence("signed in advance")
    GRANT_ENDED = "grant_ended", Sentence("ended what was signed in advance")
    BREAK_GLASS_ASKED = (
        "break_glass_asked",
        Sentence("asked to break the glass; another operator has to confirm it"),
    )
    BREAK_GLASS_DECLINED = "break_glass_declined", Sentence("declined to break the glass")
    BRAKE_PUT = "brake_put", Sentence("stopped what agents do")
    BRAKE_LIFTED = "brake_lifted", Sentence("let what was stopped go on")
    MCP_SERVER_ADDED = "mcp_server_added", Sentence("registered an MCP server")
    MCP_SERVER_CHANGED = "mcp_server_changed", Sentence("changed where an MCP server is")
    MCP_SERVER_REMOVED = "mcp_server_removed", Sentence("removed an MCP server")
    TOOL_UNPINNED = (
        "tool_unpinned",
        Sentence("no longer holds the owner of a tool to what it publishes"),
    )
    CREDENTIAL_ADDED = "credential_added", Sentence("added a credential for tools elsewhere")
    CREDENTIAL_CHANGED = "credential_changed", Sentence("changed a credential for tools elsewhere")
    CREDENTIAL_REMOVED = "credential_removed", Sentence("removed a credential for tools elsewhere")
    EVIDENCE_MADE = "evidence_made", Sentence("made an archive for auditors")
    LOG_STOPPED = "log_stopped", Sentence("could not sign the audit log")
    TOKEN_ISSUED = "token_issued", Sentence("issued a token")
    TOKEN_REVOKED = "token_revoked", Sentence("revoked a token")
    TOKEN_CHANGED = "token_changed", Sentence("changed what a token may do")
    OWNER_ADDED = "owner_added", Sentence("added the webhook of an owning service")
    OWNER_CHANGED = "owner_changed", Sentence("changed the webhook of an owning service")
    OWNER_REMOVED = "owner_removed", Sentence("removed the webhook of an owning service")
    OWNER_SECRET_RENEWED = (
        "owner_secret_renewed",
        Sentence("renewed the webhook secret of an owning service"),
    )
    SKILL_ADDED = "skill_added", Sentence("added a skill")
    SKILL_CHANGED = "skill_changed", Sentence("changed a skill")
    REMOTE_AGENT_ADDED = "remote_agent_added", Sentence("registered a remote agent")
    REMOTE_AGENT_CHANGED = "remote_agent_changed", Sentence("changed a remote agent")
    REMOTE_AGENT_PINNED = "remote_agent_pinned", Sentence("pinned the card of a remote agent")
    NOTIFICATIONS_TURNED_ON = "notifications_turned_on", Sentence("turned notifications on")
    NOTIFICATIONS_TURNED_OFF = "notifications_turned_off", Sentence("turned notifications off")


CHANGE_DESCRIPTIONS: dict[str, str] = {kind: kind.label for kind in ChangeKind}


def describe_changes(kinds: type[TextChoices]) -> None:
    """Add the kinds of change of an upper room or an optional app, in ``AppConfig.ready()``."""
    CHANGE_DESCRIPTIONS.update({kind: kind.label for kind in kinds})
