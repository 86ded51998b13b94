"""One move of one row, sealed: what ``advance()`` of a transaction and of a task have in common.

``make`` is the general form. ``make_at_once`` makes a hot move in one statement and one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cache, partial
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import connection, models
from django.db.models import F
from django.db.transaction import on_commit

from ledger import doorbell
from ledger.database import columns_of, row_of, update_returning, use_prepared_statements
from ledger.database.statements import Statement, compile_once
from ledger.events import chains, outbox
from ledger.models import Event
from ledger.principals import Principal, Surface
from ledger.seals import EPOCH, Link
from ledger.states import Move

Row = TypeVar("Row", bound=models.Model)


class Moved(NamedTuple, Generic[Row]):
    """The row as the move left it, and the event that says so."""

    row: Row
    event: Event


def no_recipients(row: models.Model) -> Iterable[tuple[str, str]]:
    return ()


def make(
    rows: models.QuerySet[Row],
    move: Move[Any],
    *,
    by: Principal,
    via: Surface,
    reason: str = "",
    details: Callable[[Row], Mapping[str, Any]],
    owed_to: Callable[[Row], Iterable[tuple[str, str]]] = no_recipients,
    columns: Mapping[str, Any],
    transaction_id: UUID | None = None,
) -> Moved[Row] | None:
    """Make ``move`` with the one row of ``rows``; ``None``, and nothing written, if none may.

    One UPDATE compares the state, writes the new one with ``columns`` and returns the row; the
    event goes to its chain and to the outbox, the doorbell rings after commit. Call it inside a
    database transaction: the row stays locked until its end, so the events of one row never
    interleave. ``details`` and ``owed_to`` read the row as the UPDATE left it.
    """
    state = F("state") if move.target is None else move.target
    row: Any = update_returning(rows.filter(state__in=move.sources), state=state, **columns)
    if row is None:
        return None
    event = chains.append(
        row.pk,
        transaction_id=transaction_id,
        tenant=row.tenant,
        kind=move.kind,
        to_state=row.state,
        by=by,
        via=via,
        reason=reason,
        details=details(row),
        owed_to=owed_to(row),
    )
    return Moved(row, event)


# --- in one statement -------------------------------------------------------------------------


class MovedAtOnce(NamedTuple, Generic[Row]):
    """The row as the move left it, and its whole chain, the new event last.

    ``links`` is ``None`` where the statement could not see the whole chain, because another event
    was committed while it waited for the row.
    """

    row: Row
    links: list[Link] | None


def compile_move(
    rows: models.QuerySet[Any], move: Move[Any], markers: Mapping[str, Any], **columns: Any
) -> Statement:
    """The UPDATE of ``move``, compiled once for ``make_at_once``; see ``compile_once``."""
    moving = rows.filter(state__in=move.sources)
    return compile_once(moving, markers, state=move.target, **columns)


def make_at_once(
    model: type[Row],
    statement: Statement,
    values: Mapping[str, Any],
    move: Move[Any],
    *,
    by: Principal,
    via: Surface,
    details: str,
    now_mark: str = "",
) -> MovedAtOnce[Row] | None:
    """Make a compiled move of a transaction; ``None``, and nothing written, if it matches no row.

    UPDATE, event and deliveries are one statement. ``details`` is canonical JSON, in which
    ``now_mark`` stands for the time that the UPDATE writes into ``ended_at``.
    """
    sql = _at_once(model, statement.sql)
    event = [str(move.kind), str(by), by.display_name, str(via), details, now_mark]
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(sql, [*statement.filled(values), *event, outbox.wanted_for(move.kind)])
        fetched = cursor.fetchone()
    if fetched is None:
        return None
    *columns, earlier, latest, owed = fetched
    row = row_of(model, columns)
    links = [_link(link) for link in (*(earlier or ()), latest)]
    event_id, tenant = links[-1].id, links[-1].tenant
    on_commit(partial(doorbell.ring, event_id, row.pk, tenant, move.kind, owed or ()), robust=True)
    is_whole = [link.seq for link in links] == [*range(1, len(links) + 1)]
    return MovedAtOnce(row, links if is_whole else None)


_LINK = ", ".join(
    "(extract(epoch FROM {0}.at) * 1000000)::bigint" if name == "at" else f"{{0}}.{name}"
    for name in Link._fields
)


@cache
def _at_once(model: type[models.Model], update: str) -> str:
    """``update`` with its event and deliveries. What a statement writes, it does not see itself."""
    return f"""
        WITH moved AS ({update} RETURNING {columns_of(model)}),
             event AS (
                 INSERT INTO ledger_event (
                     subject, transaction_id, tenant, kind, to_state, principal, principal_name,
                     via, details, reason, seq, from_state, reason_digest, previous_hash, hash)
                 SELECT id, id, tenant, %s::text, state, %s::text, %s::text, %s::text,
                        replace(%s::text, %s::text, coalesce(
                            (extract(epoch FROM ended_at) * 1000000)::bigint::text, '')),
                        '', 0, '', '', '', ''
                 FROM moved RETURNING *
             ),
             owed AS (
                 INSERT INTO ledger_delivery (event_id, channel, recipient, state, attempts, error)
                 SELECT event.id, channel, '', 'waiting', 0, ''
                 FROM event, unnest(%s::text[]) AS channel
                 RETURNING id
             )
        SELECT {columns_of(model, "moved")},
               (SELECT json_agg(json_build_array({_LINK.format("earlier")}) ORDER BY earlier.seq)
                FROM ledger_event earlier WHERE earlier.subject = moved.id),
               json_build_array({_LINK.format("event")}),
               (SELECT array_agg(owed.id) FROM owed)
        FROM moved, event
    """


def _link(values: Sequence[Any]) -> Link:
    fields = dict(zip(Link._fields, values, strict=True))
    fields |= {
        "subject": UUID(fields["subject"]),
        "transaction_id": fields["transaction_id"] and UUID(fields["transaction_id"]),
        "at": EPOCH + timedelta(microseconds=fields["at"]),
    }
    return Link(**fields)
