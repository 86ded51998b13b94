"""``manage.py rebuild_search``: write the search terms that ended transactions lack."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection

BATCH = 1_000  # transactions; each batch is a database transaction of its own
FIRST_ID = "00000000-0000-0000-0000-000000000000"
# The rows are locked against their erasure, which would find no terms to delete yet.
FILL = """
WITH batch AS (
    SELECT * FROM ledger_transaction WHERE id > %s ORDER BY id LIMIT %s FOR SHARE
), written AS (
    INSERT INTO ledger_searchterm (tenant, term, transaction_id)
    SELECT tenant, unnest(ledger_search_terms(ROW(batch.*)::ledger_transaction)), id FROM batch
    WHERE state IN ('aborted', 'committed', 'compensated', 'failed', 'refused')
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT (SELECT id FROM batch ORDER BY id DESC LIMIT 1), (SELECT count(*) FROM written)
"""


class Command(BaseCommand):
    help = (
        "Writes the search terms that transactions which ended before lack, as amounts and names "
        "without their accents. Runs beside the processes, in batches; can be stopped and run "
        "again. What ends writes its terms by itself."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        last, terms = FIRST_ID, 0
        while last is not None:
            last, written = fill_after(last)
            terms += written
        self.stdout.write(f"Wrote {terms} search terms.")


def fill_after(last: Any) -> tuple[Any, int]:
    """Fill the next batch; returns its last id, ``None`` at the end, and the number of terms."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, [last, BATCH])
        row = cursor.fetchone()
    return (row[0], row[1]) if row else (None, 0)
