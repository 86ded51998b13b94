"""Transactions for many readers, in one query and one call of Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, TextField
from django.db.models.expressions import RawSQL

from ledger.api.http.polling import Pace, headers_of_read, paces_of, too_fast
from ledger.api.rendering import versioned_text
from ledger.api.visibility import SEES_ALL
from ledger.contracts import RequiredApprover
from ledger.foundation.batches import Batcher
from ledger.foundation.postgres import on_one_line, use_prepared_statements
from ledger.models import COLUMNS, Decision, Transaction, TransactionRow, row_of
from ledger.models.agents import usable_tokens_sql
from ledger.principals import agent
from ledger.states import FINAL, State


class Reading(NamedTuple):
    """The agent that reads, the transaction it reads, and the If-None-Match of the request."""

    token_hash: str
    transaction_id: UUID
    known: str
    # It was held back until there was something to answer, and so may come at any time.
    has_waited: bool = False


TEXT = b"text/html; charset=utf-8"  # Django's content type of an empty response
# Status, headers and body.
Read = tuple[int, list[tuple[bytes, bytes]], bytes]


def _read_all(readings: list[Reading]) -> list[Read | None]:
    """``None`` for what the token may not read, or nobody can."""
    visible = _visible(readings)
    rows = [row for _, row in visible.values()]
    decisions = _decisions_on(rows)
    paces = _paces(readings, visible)
    results: list[Read | None] = [None] * len(readings)
    for place, (_, row) in visible.items():
        pace = paces.get(place, Pace.FINE)
        results[place] = _rendered(row, decisions.get(row.id, []), pace, readings[place].known)
    return results


def _paces(
    readings: list[Reading], visible: dict[int, tuple[str, TransactionRow]]
) -> dict[int, Pace]:
    """By their places, the paces of those that did not wait."""
    polls = {
        place: (principal, row.id)
        for place, (principal, row) in visible.items()
        if not readings[place].has_waited
    }
    return dict(zip(polls, paces_of(list(polls.values())), strict=True))


def _rendered(row: TransactionRow, decisions: Sequence[Decision], pace: Pace, known: str) -> Read:
    if pace is Pace.REFUSED and row.state not in FINAL:
        response = too_fast(row.id)
        return response.status_code, _encoded(response.headers), response.content
    text, etag = versioned_text(row, decisions)
    headers = _encoded(headers_of_read(etag, pace, is_final=row.state in FINAL))
    if known.removeprefix("W/") == etag:
        return 304, [(b"content-type", TEXT), *headers], b""
    return 200, [(b"content-type", b"application/json"), *headers], text.encode()


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def _visible(readings: list[Reading]) -> dict[int, tuple[str, TransactionRow]]:
    """For each place in ``readings`` with a transaction: the reader's principal, and the row."""
    hashes = [reading.token_hash for reading in readings]
    ids = [reading.transaction_id for reading in readings]
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_visible_sql(), [hashes, ids])
        return {
            place - 1: (str(agent(tenant, slug)), row_of(values))
            for place, tenant, slug, *values in cursor.fetchall()
        }


@cache
def _visible_sql() -> str:
    """Tokens and ids in; of each pair the transaction, if its token may read it.

    Both rules are those of the QuerySets. PostgreSQL merges the subqueries into plain joins.
    """
    scopes = ", ".join(f"'{scope}'" for scope in sorted(SEES_ALL))
    visible = Transaction.objects.visible_to_agent(
        RawSQL("'agent:' || caller.tenant || '/' || caller.slug", [], TextField()),
        RawSQL("caller.tenant", [], TextField()),
        RawSQL(f"caller.scopes && ARRAY[{scopes}]::varchar[]", [], BooleanField()),
    )
    requested = visible.filter(pk=RawSQL("request.transaction_id", [])).values(*COLUMNS)
    sql, parameters = requested.query.sql_with_params()
    if parameters:
        raise TypeError(f"The transactions' SQL must have no parameters, has {parameters}.")
    return on_one_line(f"""
        SELECT request.place, caller.tenant, caller.slug, seen.*
        FROM unnest(%s::text[], %s::uuid[])
            WITH ORDINALITY AS request (token_hash, transaction_id, place)
        JOIN ({usable_tokens_sql()}) AS caller
            ON caller.token_hash = request.token_hash AND caller.resource = ''
        JOIN LATERAL ({sql}) AS seen ON true
    """)


def _decisions_on(rows: Sequence[TransactionRow]) -> dict[UUID, list[Decision]]:
    """The decisions on these transactions; asks for none where none can be."""
    ids = {row.id for row in rows if may_have_any(row)}
    decisions: dict[UUID, list[Decision]] = {}
    for decision in Decision.objects.filter(transaction_id__in=ids) if ids else []:
        decisions.setdefault(decision.transaction_id, []).append(decision)
    return decisions


def may_have_any(row: TransactionRow) -> bool:
    is_decided = row.state != State.PREPARED or row.quorum > 1
    return bool(is_decided or row.required_approver == RequiredApprover.SUPERVISOR)


reads: Batcher[Reading, Read | None] = Batcher(_read_all)
