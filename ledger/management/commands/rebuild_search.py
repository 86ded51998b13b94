"""``manage.py rebuild_search``: write the search terms that ended transactions lack."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand
from django.db import connection
from django.db.transaction import atomic

from ledger.models import Transaction
from ledger.states import FINAL

BATCH = 1_000  # transactions; each batch is a database transaction of its own
FIRST_ID = UUID(int=0)
FILL = """
WITH written AS (
    INSERT INTO ledger_searchterm (tenant, term, transaction_id)
    SELECT tenant, unnest(ledger_search_terms(ROW(tx.*)::ledger_transaction)), id
    FROM ledger_transaction tx WHERE id = ANY(%s)
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM written
"""


class Command(BaseCommand):
    help = (
        "Writes the search terms that transactions which ended before lack, as amounts and names "
        "without their accents. Runs beside the processes, in batches; can be stopped and run "
        "again. What ends writes its terms by itself."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        last: UUID | None = FIRST_ID
        terms = 0
        while last is not None:
            last, written = fill_after(last)
            terms += written
        self.stdout.write(f"Wrote {terms} search terms.")


def fill_after(last: UUID) -> tuple[UUID | None, int]:
    """Fill the next batch; returns its last id, ``None`` at the end, and the number of terms."""
    with atomic():
        ended = Transaction.objects.filter(pk__gt=last, state__in=sorted(FINAL)).order_by("pk")
        # Locked against their erasure, which would find no terms to delete yet.
        keys = list(ended.select_for_update().values_list("pk", flat=True)[:BATCH])
        with connection.cursor() as cursor:
            cursor.execute(FILL, [keys])
            written = cursor.fetchone()
    return (keys[-1] if keys else None), (written[0] if written else 0)
