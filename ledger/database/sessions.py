"""How many database sessions a process has, and how long a statement may take in one.

The sweeper and ``verify_ledger`` read whole tables and are not bounded here.
"""

from __future__ import annotations

from django.db import connections

# Statements of pages and jobs take milliseconds; whatever takes this long only blocks others.
STATEMENT_S = 30
# A process that stands still in a database transaction must not keep others from the row.
IDLE_IN_TRANSACTION_S = 60
# A session that nobody used for so long is closed.
IDLE_S = 30.0
POOL_TIMEOUT_S = 10.0


def bound(*, pool: int = 0) -> None:
    """Bound the sessions of this process; before its first one, or it does nothing.

    With ``pool`` its threads share so many, and hold one only while they use it.
    """
    wiring = connections.settings["default"]
    limits = {
        "statement_timeout": STATEMENT_S,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_S,
    }
    said = [wiring["OPTIONS"].get("options", "")]
    said += [f"-c {name}={seconds}s" for name, seconds in limits.items()]
    wiring["OPTIONS"]["options"] = " ".join(said).strip()
    if pool:
        wiring["CONN_MAX_AGE"] = 0  # given back after each request
        wiring["CONN_HEALTH_CHECKS"] = True
        wiring["OPTIONS"]["pool"] = {
            "min_size": 0, "max_size": pool, "max_idle": IDLE_S, "timeout": POOL_TIMEOUT_S,
        }  # fmt: skip
