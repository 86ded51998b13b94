"""Appending to a chain: the event, what is owed because of it, and the bell after commit.

A chain is the history of one subject: a transaction, or whatever an upper room keeps in the same
audit log. The caller holds the subject's row, so the events of one chain never interleave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.db.transaction import on_commit

from ledger import doorbell
from ledger.events import outbox
from ledger.intents import canonical
from ledger.models import Event
from ledger.principals import Principal, Surface


def append(
    subject: UUID,
    *,
    tenant: str,
    kind: str,
    to_state: str,
    by: Principal,
    via: Surface,
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    transaction_id: UUID | None = None,
    owed_to: Iterable[tuple[str, str]] = (),
) -> Event:
    """One more event. Only inside the database transaction that changed the subject.

    ``owed_to`` names channels and recipients that are told of it, besides the channels that want
    every event of its kind.
    """
    event = Event.objects.create(
        subject=subject,
        transaction_id=transaction_id,
        tenant=tenant,
        kind=kind,
        to_state=to_state,
        principal=str(by),
        principal_name=by.display_name,
        via=via,
        reason=reason,
        details=canonical(dict(details or {})).decode(),
    )
    owed = outbox.put_in_outbox(event, owed_to)
    on_commit(partial(doorbell.ring, event.pk, subject, tenant, kind, owed), robust=True)
    return event
