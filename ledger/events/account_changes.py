"""Changes of accounts, as sealed events: rights, names and addresses.

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
from django.db.transaction import atomic

from ledger.events import chains
from ledger.events.change_kinds import CHANGE_DESCRIPTIONS
from ledger.models import Event
from ledger.principals import Principal, Surface, system

NAMESPACE = UUID("0f1d2c5e-6a43-5a0c-9a58-7f6d1f1b9f3e")


def chain_of(subject: str) -> UUID:
    """The subject of the events about ``subject``."""
    return uuid5(NAMESPACE, subject)


def record_change(
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
    if kind not in CHANGE_DESCRIPTIONS:
        raise ValueError(f"{kind!r} is no kind of change.")
    chain = chain_of(subject)
    with atomic():
        lock_chain(subject)
        return chains.append_event(
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


def lock_chain(subject: str) -> None:
    """Lock its chain until commit: there is no row that all its writers would lock."""
    key = int.from_bytes(chain_of(subject).bytes[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])


def edits_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Differences, as ``{field: [from, to]}`` in a form that can be sealed."""
    return {
        field: [sealable(before.get(field)), sealable(value)]
        for field, value in after.items()
        if before.get(field) != value
    }


def sealable(value: Any) -> Any:
    """The value in a form that can be sealed."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [sealable(item) for item in value]
    if isinstance(value, dict):
        return {str(key): sealable(item) for key, item in value.items()}
    return str(value)


def command_principal() -> Principal:
    """Whoever runs a command on the server: beyond the reach of roles, so at least written down."""
    try:
        account = getpass.getuser()
    except (OSError, KeyError):
        account = f"uid {os.getuid()}"
    return system("command", f"{account} on the server"[:200])
