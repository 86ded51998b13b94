"""Changes of accounts, as sealed events: rights, names and addresses.

The kinds of change stand with what they change; upper rooms and optional apps add their own.

Each subject has a chain of its own in the audit log: a principal (``user:7``,
``agent:acme/helpdesk``) or another row (``slack_route:3``). These events have no state:
``to_state`` is empty, and no transaction or task has the same subject.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID, uuid5

from django.db import connection
from django.db.models import TextChoices
from django.db.transaction import atomic

from ledger.errors import Sentence
from ledger.events import chains
from ledger.models import Event
from ledger.principals import Principal, Surface, system

NAMESPACE = UUID("0f1d2c5e-6a43-5a0c-9a58-7f6d1f1b9f3e")


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
    PERSON_INVITED = "person_invited", Sentence("made a link to choose a first password or passkey")
    ACCESS_RESET = "access_reset", Sentence("reset how a person signs in")
    RESET_ASKED = "password_reset_asked", Sentence("was asked for a new password by e-mail")
    PASSKEY_ADDED = "passkey_added", Sentence("added a passkey")
    PASSKEY_REMOVED = "passkey_removed", Sentence("removed a passkey")
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
    TOOL_HELD = "tool_held", Sentence("held a tool: what its owner publishes has changed")
    TOOL_RELEASED = "tool_released", Sentence("released a tool that was held")
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


DESCRIPTIONS: dict[str, str] = {kind: kind.label for kind in ChangeKind}


def describe(kinds: type[TextChoices]) -> None:
    """Add the kinds of change of an upper room or an optional app, in ``AppConfig.ready()``."""
    DESCRIPTIONS.update({kind: kind.label for kind in kinds})


def chain_of(subject: str) -> UUID:
    """The subject of the events about ``subject``."""
    return uuid5(NAMESPACE, subject)


def record(
    subject: str,
    kind: str,
    *,
    tenant: str,
    by: Principal,
    via: Surface,
    name: str = "",
    details: Mapping[str, Any] | None = None,
    reason: str = "",
    owed_to: Iterable[tuple[str, str]] = (),
) -> Event:
    """Append one change, in the database transaction that makes it. Pass no secrets in it.

    ``tenant`` is empty where a change concerns an account in all its tenants. ``name`` is what
    people call the subject. Raises ``ValueError`` for a kind that nobody has described.
    """
    if kind not in DESCRIPTIONS:
        raise ValueError(f"{kind!r} is no kind of change.")
    chain = chain_of(subject)
    with atomic():
        _lock(chain)
        return chains.append(
            chain,
            tenant=tenant,
            kind=kind,
            to_state="",
            by=by,
            via=via,
            reason=reason,
            details={"subject": subject, "name": name or subject, **(details or {})},
            owed_to=owed_to,
        )


def _lock(chain: UUID) -> None:
    """Lock the chain until commit: there is no row that all its writers would lock."""
    key = int.from_bytes(chain.bytes[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])


def edits(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Differences, as ``{field: [from, to]}`` in a form that can be sealed."""
    return {
        field: [plain(before.get(field)), plain(value)]
        for field, value in after.items()
        if before.get(field) != value
    }


def plain(value: Any) -> Any:
    """The value in a form that can be sealed."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value)


def command() -> Principal:
    """Whoever runs a command on the server: beyond the reach of roles, so at least written down."""
    try:
        account = getpass.getuser()
    except (OSError, KeyError):
        account = f"uid {os.getuid()}"
    return system("command", f"{account} on the server"[:200])
