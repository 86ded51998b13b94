"""Connection poolers between this process and PostgreSQL."""

from __future__ import annotations

from typing import Any

from django.conf import settings

TRIES = 5  # another client may take the session that we look for


def may_change_session() -> bool:
    """True if each database transaction may be in another session: none may keep anything in it."""
    return bool(settings.DATABASE_POOLING == "transaction")


def shares_sessions(connection: Any) -> bool:
    """True if a pooler gives each transaction of one connection any session of PostgreSQL.

    That is PgBouncer's ``pool_mode`` *transaction* or *statement*. Then settings and prepared
    statements stay behind in a session that belongs to somebody else.
    """
    if _session_of(connection) == connection.connection.info.backend_pid:
        return False  # PostgreSQL itself answered
    other = connection.copy()
    try:
        return any(_is_taken_over(connection, other) for _ in range(TRIES))
    finally:
        other.close()


def _is_taken_over(connection: Any, other: Any) -> bool:
    """True if ``other`` gets the session in which ``connection`` has just finished a statement."""
    before = _session_of(connection)
    with other.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            return _session_of(other) == before or _session_of(connection) != before
        finally:
            cursor.execute("ROLLBACK")


def _session_of(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])
