"""PostgreSQL beyond the ORM.

``prepared_statements`` for the hot path, ``keyset_pages`` for lists that are read page by page,
``inserts`` for one INSERT into several tables, ``updates`` for an UPDATE that returns its row,
``sessions`` for the limits of each process.
"""

from __future__ import annotations

from ledger.database.keyset_pages import keyset_page
from ledger.database.prepared_statements import use_prepared_statements
from ledger.database.updates import update_returning

__all__ = ["keyset_page", "update_returning", "use_prepared_statements"]
