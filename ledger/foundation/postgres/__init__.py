"""PostgreSQL beyond the ORM.

``prepared_statements`` for the hot path, ``keyset_pages`` for lists that are read page by page,
``inserts`` for one INSERT into several tables, ``updates`` for an UPDATE that returns its row,
``statements`` for UPDATEs that are compiled once, ``sessions`` for the limits of each process,
``budget`` for what all processes together may open,
``repeatable_migrations`` for migrations that go on after an interruption,
``outages`` for what is logged while the database is away, ``poolers`` for what stands before it.
"""

from __future__ import annotations

from ledger.foundation.postgres.budget import too_many_sessions
from ledger.foundation.postgres.keyset_pages import count_any_of, keyset_page
from ledger.foundation.postgres.outages import Outage, is_locked
from ledger.foundation.postgres.poolers import shares_sessions
from ledger.foundation.postgres.prepared_statements import use_prepared_statements
from ledger.foundation.postgres.repeatable_migrations import AddIndexConcurrently, CreateModelOnce
from ledger.foundation.postgres.updates import columns_of, row_of, update_returning

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
