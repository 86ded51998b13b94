"""PostgreSQL beyond the ORM.

``prepared_statements`` for the hot path, ``keyset_pages`` for lists that are read page by page,
``inserts`` for one INSERT into several tables, ``updates`` for an UPDATE that returns its row,
``statements`` for UPDATEs that are compiled once, ``sessions`` for the limits of each process,
``budget`` for what all processes together may open,
``repeatable_migrations`` for migrations that go on after an interruption,
``servers`` for questions to each of them,
``outages`` for what is logged while the database is away, ``poolers`` for what stands before it.
"""

from __future__ import annotations

from ledger.foundation.postgres.budget import (
    COURIER_SESSIONS,
    WORKER_SESSIONS,
    sessions_allowed,
    too_many_sessions,
)
from ledger.foundation.postgres.inserts import (
    as_json,
    columns_of,
    insert_all_into,
    on_one_line,
)
from ledger.foundation.postgres.keyset_pages import count_any_of, keyset_page
from ledger.foundation.postgres.outages import Outage, is_locked
from ledger.foundation.postgres.poolers import may_change_session, shares_sessions
from ledger.foundation.postgres.prepared_statements import use_prepared_statements
from ledger.foundation.postgres.repeatable_migrations import (
    AddIndexConcurrently,
    AddUniqueConcurrently,
    CreateModelOnce,
)
from ledger.foundation.postgres.servers import database_now
from ledger.foundation.postgres.statements import (
    WANTED,
    Statement,
    arrays_of,
    compile_once,
    of_each,
    unlocked,
    wanted_sql,
)
from ledger.foundation.postgres.updates import row_of, update_returning

__all__ = [
    "COURIER_SESSIONS",
    "WANTED",
    "WORKER_SESSIONS",
    "AddIndexConcurrently",
    "AddUniqueConcurrently",
    "CreateModelOnce",
    "Outage",
    "Statement",
    "arrays_of",
    "as_json",
    "columns_of",
    "compile_once",
    "count_any_of",
    "database_now",
    "insert_all_into",
    "is_locked",
    "keyset_page",
    "may_change_session",
    "of_each",
    "on_one_line",
    "row_of",
    "sessions_allowed",
    "shares_sessions",
    "too_many_sessions",
    "unlocked",
    "update_returning",
    "use_prepared_statements",
    "wanted_sql",
]
