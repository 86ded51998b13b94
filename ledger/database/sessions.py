"""Limits of this process's database sessions: how many, and how long a statement may take.

The sweeper and ``verify_ledger`` read whole tables, so they set no limits.
"""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connections

# Raised when the database is away or has ended the session.
CONNECTION_LOST = (OperationalError, InterfaceError)
# Statements of pages and jobs take milliseconds; one that takes this long only blocks others.
STATEMENT_S = 30
# A process that hangs inside a database transaction must not keep its rows locked.
IDLE_IN_TRANSACTION_S = 60
# A session that is unused for this long is closed.
IDLE_S = 30.0
POOL_TIMEOUT_S = 10.0


def bound(*, pool: int = 0) -> None:
    """Limit the sessions of this process. Must be called before the first one is opened.

    ``pool`` is how many sessions its threads share; a thread holds one only while it uses it.
    Without it each thread has its own.
    """
    database = connections.settings["default"]
    limits = {
        "statement_timeout": STATEMENT_S,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_S,
    }
    options = [database["OPTIONS"].get("options", "")]
    options += [f"-c {name}={seconds}s" for name, seconds in limits.items()]
    database["OPTIONS"]["options"] = " ".join(options).strip()
    if pool:
        database["CONN_MAX_AGE"] = 0  # returned to the pool after each request
        database["CONN_HEALTH_CHECKS"] = True
        database["OPTIONS"]["pool"] = {
            "min_size": 0,
            "max_size": pool,
            "max_idle": IDLE_S,
            "timeout": POOL_TIMEOUT_S,
        }
