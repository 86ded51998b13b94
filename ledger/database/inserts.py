"""INSERT of whole rows by hand, for statements that write several tables at once."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.db import models


def as_json(row: models.Model) -> str:
    """A row as PostgreSQL's ``jsonb_populate_record`` reads it."""
    columns = columns_of(type(row))
    return json.dumps({field.column: getattr(row, field.attname) for field in columns}, default=str)


@cache
def columns_of(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    """What an INSERT names: all but the automatic id and what the database fills in."""
    return [
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, models.AutoField) and not field.has_db_default()
    ]


def insert_into(model: type[models.Model]) -> str:
    """INSERT of one row that comes as one JSON value.

    One parameter instead of a column each: psycopg keeps the parsed form only of statements with
    few parameters, and sixty conversions in Python cost more than one in PostgreSQL.
    """
    table = model._meta.db_table
    names = ", ".join(f'"{field.column}"' for field in columns_of(model))
    record = f"jsonb_populate_record(NULL::{table}, %s::jsonb)"
    return f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {record}'
