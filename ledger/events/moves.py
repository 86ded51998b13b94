"""One move of one row, sealed: what ``advance()`` of a transaction and of a task have in common.

``make`` is the general form. ``ManyMoves`` makes a hot move of many rows in one statement and one
round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import connection, models
from django.db.models import F
from django.db.models.expressions import RawSQL
from django.db.transaction import on_commit

from ledger.errors import with_sources
from ledger.events import chains, outbox
from ledger.foundation import doorbell
from ledger.foundation.postgres import (
    WANTED,
    Statement,
    arrays_of,
    compile_once,
    on_one_line,
    row_of,
    unlocked,
    update_returning,
    use_prepared_statements,
    wanted_sql,
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


# --- many in one statement ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SealedAtOnce:
    """The event of one move of many.

    ``details`` is canonical JSON, in which ``now_mark`` stands for the time that the UPDATE writes
    into the column ``now_in`` of its statement. ``reason`` is what somebody wrote. ``own`` are the
    row's own values of the columns that the statement has from each.
    """

    row_id: UUID
    by: Principal
    via: Surface
    details: str
    now_mark: str = ""
    reason: str = ""
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        return {
            "id": self.row_id,
            "principal": str(self.by),
            "principal_name": self.by.display_name,
            "via": str(self.via),
            "details": self.details,
            "now_mark": self.now_mark,
            "reason": str(self.reason),
            **self.own,
        }


# The columns of the event in the table of values, with their SQL types.
_OF_EVENT = dict.fromkeys(
    ("principal", "principal_name", "via", "details", "now_mark", "reason"), "text"
)


class MovedAtOnce(NamedTuple, Generic[Row]):
    """The row as the move left it, and its whole chain, the new event last.

    ``links`` is ``None`` where the statement could not see the whole chain, because another event
    was committed while it waited for the row.
    """

    row: Row
    links: list[Link] | None


@dataclass(frozen=True, slots=True, eq=False)
class ManyMoves(Generic[Row]):
    """One move of many rows in one statement: UPDATE, events and deliveries."""

    model: type[Row]
    move: Move[Any]
    update: Statement
    now_in: str

    def make(self, sealed: Sequence[SealedAtOnce], *, skip_locked: bool) -> list[MovedAtOnce[Row]]:
        """Those that were made; nothing is written for a row that the statement does not match.

        ``skip_locked``: it waits for no row that somebody else has locked, and does not match it.
        """
        answers = self._execute(_ROW_AND_CHAIN, sealed, skip_locked)
        return [self._moved(*answer) for answer in answers]

    def end(self, sealed: Sequence[SealedAtOnce], *, skip_locked: bool) -> set[UUID]:
        """The same for who needs to know only which were made."""
        return {row_id for (row_id,) in self._execute(("moved.id",), sealed, skip_locked)}

    def _moved(self, *answer: Any) -> MovedAtOnce[Row]:
        *columns, earlier, latest = answer
        links = [_link(link) for link in (*(earlier or ()), latest)]
        is_whole = [link.seq for link in links] == [*range(1, len(links) + 1)]
        return MovedAtOnce(row_of(self.model, columns), links if is_whole else None)

    def _execute(
        self, answers: tuple[str, ...], sealed: Sequence[SealedAtOnce], skip_locked: bool
    ) -> list[Sequence[Any]]:
        """The values of ``answers`` for each row; the doorbell rings after commit."""
        if len({each.row_id for each in sealed}) < len(sealed):
            raise ValueError("Two moves of one row cannot be made in one statement.")
        kind = str(self.move.kind)
        own = {**self.update.own, **_OF_EVENT}
        channels = tuple(outbox.wanted_for(kind))
        sql = _at_once(self, tuple(own.items()), answers, channels, skip_locked)
        arrays = arrays_of((each.values for each in sealed), own)
        with use_prepared_statements(), connection.cursor() as cursor:
            cursor.execute(sql, [*arrays, *self.update.parameters, kind])
            fetched = cursor.fetchall()
        for values in fetched:
            event_id, row_id, tenant, owed = values[: len(_TOLD) + 1]
            ring = partial(doorbell.ring, event_id, row_id, tenant, kind, owed or ())
            on_commit(ring, robust=True)
        return [values[len(_TOLD) + 1 :] for values in fetched]


def compile_move(
    rows: models.QuerySet[Row],
    move: Move[Any],
    own: Mapping[str, str],
    now_in: str,
    **columns: Any,
) -> ManyMoves[Row]:
    """``move`` with many rows, of which ``rows`` selects each by ``of_each("id")``.

    ``own`` are further columns of each, with their SQL types.
    """
    state = F("state") if move.target is None else move.target
    moving = rows.filter(_is_in(rows.model, move.sources))
    update = compile_once(moving, own, state=state, **with_sources(rows.model, columns))
    return ManyMoves(rows.model, move, update, now_in)


def _is_in(model: type[models.Model], states: Iterable[Any]) -> RawSQL:
    """The row is in one of these states, said so that PostgreSQL finds it by its id.

    It would else read all rows that are in one of them, by their small index, and plan anew at each
    execution, since that plan seems cheaper than one for all states.
    """
    sql = f"{model._meta.db_table}.state = ANY ((SELECT %s::text[])::text[])"
    return RawSQL(sql, [[str(state) for state in states]], models.BooleanField())


_LINK = ", ".join(
    "(extract(epoch FROM {0}.at) * 1000000)::bigint" if name == "at" else f"{{0}}.{name}"
    for name in Link._fields
)


# What the doorbell is told, besides the ids of deliveries.
_TOLD = ("event.id", "moved.id", "moved.tenant")
# The row, its earlier events, and the new one.
_ROW_AND_CHAIN = (
    "moved.*",
    f"""(SELECT json_agg(json_build_array({_LINK.format("earlier")}) ORDER BY earlier.seq)
         FROM ledger_event earlier WHERE earlier.subject = moved.id)""",
    f"json_build_array({_LINK.format('event')})",
)


@cache
def _at_once(
    moves: ManyMoves[Any],
    own: tuple[tuple[str, str], ...],
    answers: tuple[str, ...],
    channels: tuple[str, ...],
    skip_locked: bool,
) -> str:
    """The UPDATE with its events and deliveries. What a statement writes, it does not see itself.

    On one line without repetitions: psycopg parses statements of 4,096 characters each time. The
    channels are no parameter: PostgreSQL would expect many, and plan at each execution.
    """
    table, update = moves.model._meta.db_table, moves.update.sql
    names = [field.column for field in moves.model._meta.concrete_fields]
    columns = ", ".join(f"{table}.{name}" if name in dict(own) else name for name in names)
    tables, owed, owed_ids = [wanted_sql(dict(own))], "", "NULL"
    if skip_locked:
        locked, update = unlocked(update, table)
        tables.append(locked)
    if channels:
        rows = ", ".join(f"('{channel}', '')" for channel in channels)
        insert = outbox.insert_sql(f"event, (VALUES {rows})")
        owed = f", owed AS ({insert} RETURNING id, event_id)"
        owed_ids = "(SELECT array_agg(owed.id) FROM owed WHERE owed.event_id = event.id)"
    now = f"(extract(epoch FROM moved.{moves.now_in}) * 1000000)::bigint::text"
    return on_one_line(f"""
        WITH {", ".join(tables)},
             moved AS ({update} RETURNING {columns}),
             event AS (
                 INSERT INTO ledger_event (
                     subject, transaction_id, tenant, kind, to_state, principal, principal_name,
                     via, details, reason, seq, from_state, reason_digest, previous_hash, hash)
                 SELECT id, id, tenant, %s::text, state, principal, principal_name, via,
                        replace(details, now_mark, coalesce({now}, '')), reason, 0, '', '', '', ''
                 FROM (SELECT id, tenant, state, {moves.now_in} FROM moved) moved
                 JOIN {WANTED} USING (id) RETURNING *
             ) {owed}
        SELECT {", ".join((*_TOLD, owed_ids, *answers))}
        FROM moved JOIN event ON event.subject = moved.id
    """)


def _link(values: Sequence[Any]) -> Link:
    fields = dict(zip(Link._fields, values, strict=True))
    fields |= {
        "subject": UUID(fields["subject"]),
        "transaction_id": fields["transaction_id"] and UUID(fields["transaction_id"]),
        "at": EPOCH + timedelta(microseconds=fields["at"]),
    }
    return Link(**fields)
