from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import migrations, models
from django.db.transaction import atomic

from ledger.database import CreateModelOnce

SQL = Path(__file__).parents[1] / "sql"
BATCH = 5_000  # transactions; each batch is a database transaction of its own

# The rows are locked against their erasure, which would find no terms to delete yet.
FILL = """
WITH batch AS (
    SELECT * FROM ledger_transaction WHERE id > %s ORDER BY id LIMIT %s FOR SHARE
), written AS (
    INSERT INTO ledger_searchterm (tenant, term, transaction_id)
    SELECT tenant, unnest(ledger_search_terms(ROW(batch.*)::ledger_transaction)), id FROM batch
    WHERE state IN ('aborted', 'committed', 'compensated', 'failed', 'refused')
    ON CONFLICT DO NOTHING
)
SELECT id FROM batch ORDER BY id DESC LIMIT 1
"""


def create(apps: Any, schema_editor: Any) -> None:
    with atomic():
        schema_editor.execute((SQL / "search_terms.sql").read_text(), params=None)


def fill(apps: Any, schema_editor: Any) -> None:
    """The terms of what ended before. Can be run again; the triggers write those that end now."""
    last: Any = "00000000-0000-0000-0000-000000000000"
    with schema_editor.connection.cursor() as cursor:
        while last is not None:
            cursor.execute(FILL, [last, BATCH])
            row = cursor.fetchone()
            last = row[0] if row else None


class Migration(migrations.Migration):
    # Filled in many transactions, beside the running processes: each step can be repeated.
    atomic = False
    dependencies = [("ledger", "0004_sweeper_lease")]
    operations = [
        CreateModelOnce(
            name="SearchTerm",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant", "term", "transaction_id", blank=True, editable=False,
                        primary_key=True, serialize=False,
                    ),
                ),
                ("tenant", models.CharField(max_length=63)),
                ("term", models.CharField(db_collation="C", max_length=110)),
                ("transaction_id", models.UUIDField()),
            ],
        ),
        migrations.RunPython(create, migrations.RunPython.noop),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
