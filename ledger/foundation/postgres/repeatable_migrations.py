"""Steps of migrations that can be repeated after an interruption.

A migration that builds beside running processes is no database transaction: what it had built when
it was interrupted is there, and Django would stumble over it.
"""

from __future__ import annotations

from typing import Any

from django.contrib.postgres import operations as postgres
from django.db.migrations import AddConstraint, CreateModel

_IS_VALID = """
    SELECT indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relname = %s AND relnamespace = to_regnamespace(current_schema())
"""


class AddIndexConcurrently(postgres.AddIndexConcurrently):
    """Django's own; keeps an index of that name that is whole, and builds a broken one anew."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if not _is_whole(schema_editor, self.index.name):
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class AddUniqueConcurrently(AddConstraint):
    """The same for a unique constraint with a condition, which PostgreSQL keeps as an index."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if not _is_whole(schema_editor, self.constraint.name):
            model = to_state.apps.get_model(app_label, self.model_name)
            sql = str(self.constraint.create_sql(model, schema_editor))
            begin = "CREATE UNIQUE INDEX "
            assert sql.startswith(begin), sql
            schema_editor.execute(f"{begin}CONCURRENTLY {sql.removeprefix(begin)}", params=None)


def _is_whole(schema_editor: Any, index: str) -> bool:
    """True if the index is there, and whole; a broken one is dropped."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_IS_VALID, [index])
        row = cursor.fetchone()
    if row is not None and row != (True,):
        name = schema_editor.quote_name(index)
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    return bool(row == (True,))


class CreateModelOnce(CreateModel):
    """Django's own; keeps the table if it is there. One statement creates it, so it is whole."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        table = to_state.apps.get_model(app_label, self.name)._meta.db_table
        if table not in schema_editor.connection.introspection.table_names():
            super().database_forwards(app_label, schema_editor, from_state, to_state)
