"""Hot UPDATEs of many rows, which the ORM compiles once; what differs by row comes in arrays.

Compiling a queryset costs more than PostgreSQL needs for the row. The rules stay where they are,
in the querysets: a statement is compiled from one in which ``of_each`` stands for the own values of
each row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models.expressions import RawSQL

from ledger.foundation.postgres.updates import compile_update

WANTED = "wanted"  # the table of values, with a row for each row that is to be updated


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL without RETURNING, its parameters, and the columns of ``WANTED`` with their SQL types."""

    sql: str
    parameters: tuple[Any, ...]
    own: Mapping[str, str]


def of_each(column: str) -> RawSQL:
    """The row's own value, in the column of ``WANTED``."""
    return RawSQL(f"{WANTED}.{column}", [])


def compile_once(rows: models.QuerySet[Any], own: Mapping[str, str], **columns: Any) -> Statement:
    """The UPDATE of ``rows``, which have to be compared with an ``of_each`` column.

    ``own`` has the SQL type of each such column. Raises ``ValueError`` for a statement of another
    form than UPDATE … SET … WHERE.
    """
    sql, parameters = compile_update(rows, **columns)
    update, _, condition = sql.partition(" WHERE ")
    if not condition or "SELECT" in update:
        raise ValueError(f"There is no place for {WANTED} in {sql}.")
    return Statement(
        f"{update} FROM {WANTED} WHERE {condition}", tuple(parameters), {"id": "uuid", **own}
    )


def wanted_sql(own: Mapping[str, str]) -> str:
    """The table of values, from one array for each of these columns.

    PostgreSQL would read the length of an array, find a plan for it cheaper than one for all, and
    plan at each execution; of what a subquery returns it knows no length.
    """
    arrays = ", ".join(f"(SELECT %s::{sql_type}[])" for sql_type in own.values())
    return f"{WANTED} AS (SELECT * FROM unnest({arrays}) AS {WANTED} ({', '.join(own)}))"


def unlocked(update: str, table: str) -> tuple[str, str]:
    """A further table for WITH, and the UPDATE of those rows alone that nobody else has locked."""
    rows = f"""locked AS (
        SELECT row.id FROM {table} row JOIN {WANTED} ON row.id = {WANTED}.id
        ORDER BY row.id FOR UPDATE OF row SKIP LOCKED)"""
    return rows, f"{update} AND {table}.id IN (SELECT id FROM locked)"


def arrays_of(rows: Iterable[Mapping[str, Any]], own: Mapping[str, str]) -> list[list[Any]]:
    """The parameters of ``wanted_sql``."""
    rows = list(rows)
    return [
        [json.dumps(row[column]) if sql_type == "jsonb" else row[column] for row in rows]
        for column, sql_type in own.items()
    ]
