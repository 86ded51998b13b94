"""Limits of this process's database sessions: how many, and how long a statement may take.

``verify_ledger`` reads whole tables, so it sets no limits.
"""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connection, connections
from psycopg.errors import QueryCanceled

from ledger.foundation.breakers import Breaker
from ledger.foundation.postgres import servers
from ledger.foundation.postgres.backend.base import BoundedConnection, DatabaseIsAway, is_lost

# Raised when the database is away or has ended the session.
CONNECTION_LOST = (OperationalError, InterfaceError)
# Statements of pages and jobs take milliseconds; one that takes this long only blocks others.
STATEMENT_S = 10
# How much longer the client waits, for a server that ends no statement because it stands still.
ANSWER_MARGIN_S = 2
# How long a click waits for somebody else's lock on its row.
LOCK_S = 3
# A process that hangs inside a database transaction must not keep its rows locked.
IDLE_IN_TRANSACTION_S = 10
# A session that is unused for this long is closed.
IDLE_S = 30.0
POOL_TIMEOUT_S = 2.5
SIGN_OF_LIFE_S = 1.0  # it is known within POOL_TIMEOUT_S, which nobody then waits for again


def bound(
    process: str, *, pool: int = 0, lock_s: int = LOCK_S, serves_people: bool = False
) -> None:
    """Limit the sessions of this process. Must be called before the first one is opened.

    ``process`` is its name, which ``pg_stat_activity`` shows for each of them.
    ``lock_s`` is how many seconds a statement waits for somebody else's lock.
    ``pool`` is how many sessions its threads share; a thread holds one only while it uses it.
    Without it each thread has its own.
    ``serves_people``: what waits ends as soon as the database is known to give no sign of life.
    """
    database = connections.settings["default"]
    limits = {
        "statement_timeout": STATEMENT_S,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_S,
        "lock_timeout": lock_s,
    }
    options = [database["OPTIONS"].get("options", "")]
    options += [f"-c {name}={seconds}s" for name, seconds in limits.items()]
    database["OPTIONS"]["options"] = " ".join(options).strip()
    database["OPTIONS"].setdefault("application_name", f"assent {process}")
    BoundedConnection.answer_within_s = STATEMENT_S + ANSWER_MARGIN_S
    if serves_people:
        BoundedConnection.breaker = Breaker("The database", _gives_sign, DatabaseIsAway)
    if pool:
        database["CONN_MAX_AGE"] = 0  # returned to the pool after each request
        database["OPTIONS"]["pool"] = {
            "connection_class": BoundedConnection,
            "min_size": 0,
            "max_size": pool,
            "max_idle": IDLE_S,
            "timeout": POOL_TIMEOUT_S,
        }


def _gives_sign() -> bool:
    return servers.has_primary(SIGN_OF_LIFE_S)


def may_have_committed(failure: Exception) -> bool:
    """True if the session was lost, so that nobody knows what became of its last statement.

    A server that refuses by itself (a time limit, a lock) has rolled back, and the session lives.
    """
    state = sqlstate(failure)
    return not state or state.startswith(("08", "57P"))


def is_standstill(failure: Exception) -> bool:
    """True if asking again may take as long again; a deadlock, say, is over once it is reported."""
    return may_have_committed(failure) or sqlstate(failure) == QueryCanceled.sqlstate


def sqlstate(failure: Exception) -> str:
    """PostgreSQL's code of an error; empty if the server gave none."""
    return getattr(failure.__cause__, "sqlstate", None) or ""


def end_if_lost() -> None:
    """End this thread's session if the server has ended it."""
    if connection.connection is not None and is_lost(connection.connection):
        end()


def end() -> None:
    """End this thread's session with all its locks; returned to a pool it would keep them."""
    if connection.connection is not None:
        connection.connection.close()
    connection.close()
