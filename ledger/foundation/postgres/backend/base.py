"""Django's backend for PostgreSQL, over connections that wait for no answer without end.

``statement_timeout`` is kept by the server and TCP time-outs by the kernel. Neither helps when the
server itself stands still, when a proxy between us does, or on a Unix socket: then the client has
to stop waiting by itself.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

LOOK_EVERY_S = 0.1  # for signals such as Ctrl-C; psycopg's own default


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer takes longer than ``answer_within_s``.

    The limit is the process's (``sessions.bound`` sets it). It is a little longer than
    ``statement_timeout``, so it ends only what the server no longer ends.
    """

    answer_within_s: float | None = None  # no limit

    def wait(self, gen: Any, interval: float = LOOK_EVERY_S, timeout: float | None = None) -> Any:
        """Raises ``psycopg.OperationalError``, after closing the connection, without an answer."""
        if timeout is not None or self.answer_within_s is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_within_s)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # the answer may still come, and nobody would know to what
            raise


class DatabaseWrapper(base.DatabaseWrapper):
    """Django connects by ``Database.connect``, or by the pool in ``OPTIONS``."""

    Database = SimpleNamespace(**{**vars(psycopg), "connect": BoundedConnection.connect})  # type: ignore[assignment]
