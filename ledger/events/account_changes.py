"""Changes of accounts, as sealed events: who may do what, who they are, how they are reached.

Each kind of thing has a chain of its own in the audit log, named by its ``subject``: a principal
(``user:7``, ``agent:acme/helpdesk``) or what it is (``slack_route:3``). These events have no state:
``to_state`` is empty, and no transaction or task has the same subject.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID, uuid5

from django.db import connection
from django.db.transaction import atomic

from ledger.events import chains
from ledger.models import Event
from ledger.principals import Principal

NAMESPACE = UUID("0f1d2c5e-6a43-5a0c-9a58-7f6d1f1b9f3e")

# What is said of it on the desk, in the past tense, after the name of whoever did it.
SAID = {
    "user_created": "opened an account",
    "user_renamed": "changed the name",
    "email_changed": "changed the e-mail address",
    "user_activated": "opened the account again",
    "user_deactivated": "closed the account",
    "password_changed": "changed the password",
    "role_granted": "gave a role",
    "role_revoked": "took a role",
    "staff_granted": "let into the admin",
    "staff_revoked": "shut out of the admin",
    "superuser_granted": "made a superuser",
    "superuser_revoked": "no superuser any more",
    "permissions_changed": "changed the permissions in the admin",
    "change_requested": "asked for a change, which a second operator has to confirm",
    "change_declined": "declined a change",
    "tenant_added": "added a tenant",
    "tenant_changed": "changed a tenant",
    "agent_added": "added an agent",
    "agent_changed": "changed an agent",
    "agent_activated": "switched an agent on",
    "agent_deactivated": "switched an agent off",
    "webhook_changed": "changed where webhooks go",
    "webhook_secret_renewed": "renewed the webhook secret",
    "token_issued": "issued a token",
    "token_revoked": "revoked a token",
    "token_changed": "changed what a token may do",
    "owner_added": "added the webhook of an owning service",
    "owner_changed": "changed the webhook of an owning service",
    "owner_removed": "removed the webhook of an owning service",
    "owner_secret_renewed": "renewed the webhook secret of an owning service",
    "skill_added": "added a skill",
    "skill_changed": "changed a skill",
    "remote_agent_added": "registered a remote agent",
    "remote_agent_changed": "changed a remote agent",
    "remote_agent_pinned": "pinned the card of a remote agent",
    "slack_link_asked": "asked to link a Slack user",
    "slack_linked": "linked a Slack user",
    "slack_unlinked": "unlinked a Slack user",
    "slack_workspace_connected": "connected a Slack workspace",
    "slack_workspace_changed": "changed a Slack workspace",
    "slack_route_added": "added a Slack route",
    "slack_route_changed": "changed a Slack route",
    "slack_route_removed": "removed a Slack route",
}
KINDS = frozenset(SAID)


def chain_of(subject: str) -> UUID:
    """The subject of the events about ``subject``."""
    return uuid5(NAMESPACE, subject)


def record(
    subject: str,
    kind: str,
    *,
    tenant: str,
    by: Principal,
    via: str,
    name: str = "",
    details: Mapping[str, Any] | None = None,
    reason: str = "",
    owed_to: Iterable[tuple[str, str]] = (),
) -> Event:
    """Append one change, in the database transaction that makes it; never a secret in it.

    ``tenant`` is empty where a change concerns an account in all its tenants. ``name`` is what
    people call the subject.
    """
    assert kind in KINDS, kind
    chain = chain_of(subject)
    with atomic():
        _take_turns(chain)
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


def _take_turns(chain: UUID) -> None:
    """The events of one chain never interleave; there is no one row that all its writers lock."""
    key = int.from_bytes(chain.bytes[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])


def edits(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What differs, as ``{field: [from, to]}`` in a form that can be sealed."""
    return {
        field: [_plain(before.get(field)), _plain(value)]
        for field, value in after.items()
        if before.get(field) != value
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return str(value)


def command() -> Principal:
    """Whoever runs a command on the server: beyond the reach of roles, so at least written down."""
    try:
        account = getpass.getuser()
    except (OSError, KeyError):
        account = f"uid {os.getuid()}"
    return Principal("system", "command", f"{account} on the server"[:200])
