"""INSERT of whole rows in written SQL, for one statement that writes several tables."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.db import models


def as_json(row: models.Model) -> str:
    """The row as JSON that PostgreSQL's ``jsonb_populate_record`` reads."""
    columns = columns_of(type(row))
    return json.dumps({field.column: getattr(row, field.attname) for field in columns}, default=str)


@cache
def columns_of(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    """The columns of an INSERT: all but automatic ids and those that only the database fills in."""
    return [
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, models.AutoField)
        and (field.has_default() or not field.has_db_default())
    ]


def insert_all_into(model: type[models.Model], source: str) -> str:
    """INSERT of all rows of ``source``, a FROM clause in SQL with the columns of the model.

    Rows are best passed as one JSON parameter (``as_json``): psycopg caches the parsed form only of
    statements with few parameters, and conversions in Python cost more than one in PostgreSQL.
    """
    names = ", ".join(f'"{field.column}"' for field in columns_of(model))
    return f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {names} {source}'


def on_one_line(sql: str) -> str:
    """Written SQL without its line breaks and indents, none of which may be within a literal.

    psycopg keeps the parsed form only of statements of less than 4,096 characters.
    """
    return " ".join(sql.split())
