"""One move of one row, sealed: what ``advance()`` of a transaction and of a task have in common.

``make`` is the general form. ``make_at_once`` makes a hot move in one statement and one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import connection, models
from django.db.models import F
from django.db.transaction import on_commit

from ledger.errors import with_sources
from ledger.events import chains, outbox
from ledger.foundation import doorbell
from ledger.foundation.postgres import (
    Statement,
    compile_once,
    on_one_line,
    row_of,
    update_returning,
    use_prepared_statements,
)
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
    written = with_sources(rows.model, columns)
    row: Any = update_returning(rows.filter(state__in=move.sources), state=state, **written)
    if row is None:
        return None
    event = chains.append_event(
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


@dataclass(frozen=True, slots=True)
class SealedAtOnce:
    """The event of a move at once.

    ``details`` is canonical JSON, in which ``now_mark`` stands for the time that the UPDATE writes
    into the column ``now_in``. ``reason`` is what somebody wrote.
    """

    move: Move[Any]
    by: Principal
    via: Surface
    details: str
    now_mark: str = ""
    now_in: str = "ended_at"
    reason: str = ""

    @property
    def parameters(self) -> list[Any]:
        kind = str(self.move.kind)
        by = str(self.by), self.by.display_name, str(self.via)
        channels = outbox.wanted_for(kind)
        return [kind, *by, self.details, self.now_mark, str(self.reason), channels]


class _Told(NamedTuple):
    """Columns that the statement of a move at once answers in any case."""

    event_id: int
    row_id: UUID
    tenant: str
    owed: list[int] | None


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
    state = F("state") if move.target is None else move.target
    written = with_sources(rows.model, columns)
    return compile_once(moving, markers, state=state, **written)


def make_at_once(
    model: type[Row],
    statement: Statement,
    values: Mapping[str, Any],
    sealed: SealedAtOnce,
) -> MovedAtOnce[Row] | None:
    """Make a compiled move of a transaction; ``None``, and nothing written, if it matches no row.

    UPDATE, event and deliveries are one statement.
    """
    sql = _at_once(model, statement.sql, _ROW_AND_CHAIN, sealed.now_in)
    fetched = _execute(sql, statement, values, sealed)
    if fetched is None:
        return None
    *columns, earlier, latest = fetched
    links = [_link(link) for link in (*(earlier or ()), latest)]
    is_whole = [link.seq for link in links] == [*range(1, len(links) + 1)]
    return MovedAtOnce(row_of(model, columns), links if is_whole else None)


def is_made_at_once(
    model: type[models.Model],
    statement: Statement,
    values: Mapping[str, Any],
    sealed: SealedAtOnce,
) -> bool:
    """As ``make_at_once`` for who needs to know only whether the move was made."""
    sql = _at_once(model, statement.sql, (), sealed.now_in)
    return _execute(sql, statement, values, sealed) is not None


def _execute(
    sql: str, statement: Statement, values: Mapping[str, Any], sealed: SealedAtOnce
) -> Sequence[Any] | None:
    """Columns the statement answers besides ``_Told``; the doorbell rings after commit."""
    parameters = [*statement.filled(values), *sealed.parameters]
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        fetched = cursor.fetchone()
    if fetched is None:
        return None
    event_id, row_id, tenant, owed = _Told(*fetched[: len(_Told._fields)])
    kind = sealed.move.kind
    on_commit(partial(doorbell.ring, event_id, row_id, tenant, kind, owed or ()), robust=True)
    rest: Sequence[Any] = fetched[len(_Told._fields) :]
    return rest


_LINK = ", ".join(
    "(extract(epoch FROM {0}.at) * 1000000)::bigint" if name == "at" else f"{{0}}.{name}"
    for name in Link._fields
)


_TOLD = ("event.id", "moved.id", "moved.tenant", "(SELECT array_agg(owed.id) FROM owed)")
# The row, its earlier events, and the new one.
_ROW_AND_CHAIN = (
    "moved.*",
    f"""(SELECT json_agg(json_build_array({_LINK.format("earlier")}) ORDER BY earlier.seq)
         FROM ledger_event earlier WHERE earlier.subject = moved.id)""",
    f"json_build_array({_LINK.format('event')})",
)


@cache
def _at_once(model: type[models.Model], update: str, answers: tuple[str, ...], now_in: str) -> str:
    """``update`` with its event and deliveries. What a statement writes, it does not see itself.

    On one line without repetitions: psycopg parses statements of 4,096 characters each time.
    """
    columns = ", ".join(f'"{field.column}"' for field in model._meta.concrete_fields)
    owed = outbox.insert_sql("event, (SELECT unnest(%s::text[]), '')")
    return on_one_line(f"""
        WITH moved AS ({update} RETURNING {columns}),
             event AS (
                 INSERT INTO ledger_event (
                     subject, transaction_id, tenant, kind, to_state, principal, principal_name,
                     via, details, reason, seq, from_state, reason_digest, previous_hash, hash)
                 SELECT id, id, tenant, %s::text, state, %s::text, %s::text, %s::text,
                        replace(%s::text, %s::text, coalesce(
                            (extract(epoch FROM {now_in}) * 1000000)::bigint::text, '')),
                        %s::text, 0, '', '', '', ''
                 FROM moved RETURNING *
             ),
             owed AS ({owed} RETURNING id)
        SELECT {", ".join((*_TOLD, *answers))} FROM moved, event
    """)


def _link(values: Sequence[Any]) -> Link:
    fields = dict(zip(Link._fields, values, strict=True))
    fields |= {
        "subject": UUID(fields["subject"]),
        "transaction_id": fields["transaction_id"] and UUID(fields["transaction_id"]),
        "at": EPOCH + timedelta(microseconds=fields["at"]),
    }
    return Link(**fields)
