"""Number of database sessions an installation may open, beside the number it may have."""

from __future__ import annotations

from typing import Any

from django.conf import settings

# Sessions that one process of each kind opens at most; docs/scaling.md says for what. A web process
# has a pool, and one more for /readyz.
WORKER_SESSIONS = 4  # shared by its calls, none of which keeps one while it waits for its tool
COURIER_SESSIONS = 10
BUS_SESSIONS = 4  # one for each turn at the same time
SWEEPER_SESSIONS = 20  # the one that works
STANDBY_SESSIONS = 1  # one is enough for a sweeper that waits for its turn
SPARE = 5  # migrate, psql, a backup

_ALLOWED = """
    SELECT least(
        current_setting('max_connections')::int
            - current_setting('superuser_reserved_connections')::int
            - coalesce(current_setting('reserved_connections', true)::int, 0),
        (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
        (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())
    )
"""


def needed() -> dict[str, int]:
    """The most sessions of all processes together, by what opens them."""
    return {
        **_of("web", settings.WEB_PROCESSES, settings.DATABASE_POOL + 1),
        **_of("workers", settings.WORKER_PROCESSES, WORKER_SESSIONS),
        **_of("couriers", settings.COURIER_PROCESSES, COURIER_SESSIONS + bool(settings.SIEM_URL)),
        **_of("git bus", settings.BUS_PROCESSES, BUS_SESSIONS),
        "the sweeper and its stand-by": SWEEPER_SESSIONS + STANDBY_SESSIONS,
        "to spare": SPARE,
    }


def _of(kind: str, processes: int, sessions: int) -> dict[str, int]:
    return {f"{processes} {kind} x {sessions}": processes * sessions}


def sessions_allowed(connection: Any) -> int:
    """The number in the settings, else the one PostgreSQL gives this role in this database."""
    if settings.DATABASE_SESSIONS:
        return int(settings.DATABASE_SESSIONS)
    with connection.cursor() as cursor:
        cursor.execute(_ALLOWED)
        return int(cursor.fetchone()[0])


def too_many_sessions(connection: Any) -> str | None:
    """The problem, in words, if more may be opened than there are; else ``None``."""
    by_kind, limit = needed(), sessions_allowed(connection)
    total = sum(by_kind.values())
    if total <= limit:
        return None
    listed = ", ".join(f"{name} ({number})" for name, number in by_kind.items())
    return (
        f"All processes together may open {total} database sessions, {listed}; there are {limit}."
    )
