"""UPDATE … RETURNING, which Django's ``update()`` lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.sql import UpdateQuery

Row = TypeVar("Row", bound=models.Model)
Convert = Callable[[Any, None, Any], Any]


def update_returning(rows: models.QuerySet[Row], **columns: Any) -> Row | None:
    """Update the one row of ``rows`` and return it as it is then; ``None`` if there is none."""
    sql, parameters = compile_update(rows, **columns)
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING {columns_of(rows.model)}", parameters)
        values = cursor.fetchone()
    return row_of(rows.model, values) if values is not None else None


def compile_update(rows: models.QuerySet[Any], **columns: Any) -> tuple[str, Sequence[Any]]:
    """The SQL of ``rows.update(**columns)``, and its parameters."""
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values(columns)
    sql, parameters = query.get_compiler(connection=connection).as_sql()
    return sql, parameters


@cache
def columns_of(model: type[models.Model], table: str = "") -> str:
    """All columns of the model, as SQL that ``row_of`` understands the result of."""
    name = table or model._meta.db_table
    return ", ".join(f'"{name}"."{field.column}"' for field in model._meta.concrete_fields)


def row_of(model: type[Row], values: Sequence[Any]) -> Row:
    """The instance with the values of ``columns_of``, as a cursor returns them."""
    names, converters = _fields(model)
    plain = list(values)
    for place, convert in converters:
        plain[place] = convert(plain[place], None, connection)
    return model.from_db(connection.alias, names, plain)


@cache
def _fields(model: type[models.Model]) -> tuple[list[str], list[tuple[int, Convert]]]:
    fields: Any = model._meta.concrete_fields
    converters = [
        (place, convert)
        for place, field in enumerate(fields)
        for convert in field.get_db_converters(connection)
    ]
    return [field.attname for field in fields], converters
