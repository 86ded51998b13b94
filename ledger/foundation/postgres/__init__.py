"""PostgreSQL beyond the ORM.

``prepared_statements`` for the hot path, ``keyset_pages`` for lists that are read page by page,
``inserts`` for one INSERT into several tables, ``updates`` for an UPDATE that returns its row,
``statements`` for UPDATEs that are compiled once, ``sessions`` for the limits of each process,
``budget`` for what all processes together may open,
``repeatable_migrations`` for migrations that go on after an interruption,
``outages`` for what is logged while the database is away, ``poolers`` for what stands before it.
"""

from __future__ import annotations

from ledger.database.budget import too_many_sessions
from ledger.database.keyset_pages import count_any_of, keyset_page
from ledger.database.outages import Outage, is_locked
from ledger.database.poolers import shares_sessions
from ledger.database.prepared_statements import use_prepared_statements
from ledger.database.repeatable_migrations import AddIndexConcurrently, CreateModelOnce
from ledger.database.updates import columns_of, row_of, update_returning

__all__ = [
    "AddIndexConcurrently",
    "CreateModelOnce",
    "Outage",
    "columns_of",
    "count_any_of",
    "is_locked",
    "keyset_page",
    "row_of",
    "shares_sessions",
    "too_many_sessions",
    "update_returning",
    "use_prepared_statements",
]
