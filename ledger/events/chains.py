"""Appending to a chain: the event, its deliveries, and the doorbell after commit.

A chain is the history of one subject: a transaction, or a row of an upper room. The caller holds a
lock on the subject's row, so the events of one chain never interleave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.db.transaction import on_commit

from ledger.errors import source_of
from ledger.events import outbox
from ledger.foundation import doorbell
from ledger.models import Event
from ledger.principals import Principal, Surface
from ledger.seals import canonical


def append_event(
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
    """Append an event. Call it inside the database transaction that changes the subject.

    ``owed_to`` has pairs of a channel and a recipient to deliver to, besides the channels that
    want every event of its kind.
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
        reason_source=source_of(reason),
        details=canonical(dict(details or {})).decode(),
    )
    owed = outbox.put_in_outbox(event, owed_to)
    on_commit(partial(doorbell.ring, event.pk, subject, tenant, kind, owed), robust=True)
    return event
