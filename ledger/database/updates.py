"""UPDATE … RETURNING, which Django's ``update()`` lacks."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.sql import UpdateQuery

Row = TypeVar("Row", bound=models.Model)


def update_returning(rows: models.QuerySet[Row], **columns: Any) -> Row | None:
    """Update the one row of ``rows`` and return it as it is then; ``None`` if there is none."""
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values(columns)
    sql, params = query.get_compiler(connection=connection).as_sql()
    return next(iter(rows.model._base_manager.raw(f"{sql} RETURNING *", params)), None)
