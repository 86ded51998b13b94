"""The log of an account: each change of it is a sealed event, and its person is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.db.transaction import atomic

from approvals.people import notices
from approvals.people.principals import name_of, principal_of
from ledger import events
from ledger.models import Event
from ledger.principals import Principal, Surface


def record_change(
    person: User,
    kind: str,
    *,
    by: Principal,
    via: Surface,
    tenant: str = "",
    also_owed: Iterable[tuple[str, str]] = (),
    **details: Any,
) -> Event:
    """Append a sealed event of a change of this account, and notify the person.

    ``also_owed`` has channel and recipient of further deliveries of the event.
    """
    with atomic():
        event = events.record_change(
            str(principal_of(person)),
            kind,
            tenant=tenant,
            by=by,
            via=via,
            name=name_of(person),
            details=details,
            owed_to=[*notices.deliveries(person, kind, by), *also_owed],
        )
        notices.show_on_desk(person, event)
    return event


def record_own(person: User, kind: str, **details: Any) -> Event:
    """Append a sealed event of a change that a person made to their own account, on the desk."""
    return record_change(person, kind, by=principal_of(person), via=Surface.WEB, **details)
