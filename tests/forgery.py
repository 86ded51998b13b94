"""What the owner of the database can do: past the triggers, and with right hashes again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection

from ledger.events import outbox
from ledger.models import Event, Transaction
from ledger.seals import seals
from ledger.seals.intents import canonical
from ledger.transactions import sign_offs


@contextmanager
def without_triggers() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            yield
        finally:
            cursor.execute("SET session_replication_role = DEFAULT")


def forge(sql: str, *values: object) -> None:
    with without_triggers(), connection.cursor() as cursor:
        cursor.execute(sql, values or None)


def reseal(subject: UUID, **first_says: object) -> None:
    """Make the chain of a subject whole again, as whoever rewrote it would.

    ``first_says`` changes the details of its first event on the way.
    """
    seq, previous, state = 1, "", ""
    for link in sign_offs.links_of(UUID(str(subject))):
        details = canonical({**link.says, **first_says}).decode() if seq == 1 else link.details
        link = link._replace(
            seq=seq,
            previous_hash=previous,
            from_state=state,
            details=details if first_says else link.details,
        )
        link = link._replace(hash=seals.hash_of(link))
        forge(
            "UPDATE ledger_event SET seq = %s, previous_hash = %s, from_state = %s, details = %s, "
            "hash = %s WHERE id = %s",
            link.seq,
            link.previous_hash,
            link.from_state,
            link.details,
            link.hash,
            link.id,
        )
        seq, previous, state = seq + 1, link.hash, link.to_state


def reseal_row(pk: UUID) -> None:
    """Make the first event of a transaction seal the row as it now is."""
    reseal(pk, **seals.first_details(Transaction.objects.get(pk=pk)))


def move_deadline(pk: UUID, milliseconds: int = 0) -> None:
    """Let a transaction's time be up now, or soon, as if it had been prepared so."""
    forge(
        "UPDATE ledger_transaction SET "
        "expires_at = clock_timestamp() + %s * interval '1 millisecond' WHERE id = %s",
        milliseconds,
        pk,
    )
    reseal_row(pk)


def end_retention(pk: UUID) -> None:
    """Let a transaction's retention be over, as if it had been prepared so; nothing is owed."""
    while owed := outbox.overdue():
        for delivery in owed:
            outbox.deliver(delivery)
    forge(
        "UPDATE ledger_transaction SET retain_until = clock_timestamp() - interval '1 second' "
        "WHERE id = %s",
        pk,
    )
    reseal_row(pk)


def says(event_id: int) -> dict[str, object]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT details FROM ledger_event WHERE id = %s", [event_id])
        details: dict[str, object] = json.loads(cursor.fetchone()[0])
        return details


def rewrite(event: Event, **changes: object) -> str:
    """Change the details of an event, and make its chain whole again; ``None`` takes one away."""
    said = {**json.loads(event.details), **changes}
    details = canonical({name: value for name, value in said.items() if value is not None})
    forge("UPDATE ledger_event SET details = %s WHERE id = %s", details.decode(), event.pk)
    reseal(event.subject)
    return f"event {event.pk}"
