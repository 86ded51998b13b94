"""Django's backend for PostgreSQL, over connections that wait for no answer without end.

``statement_timeout`` is kept by the server and TCP time-outs by the kernel. Neither helps when the
server itself stands still, when a proxy between us does, or on a Unix socket: then the client has
to stop waiting by itself.
"""

from __future__ import annotations

import select
import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

from ledger.foundation.breakers import Breaker

LOOK_EVERY_S = 0.1  # for signals such as Ctrl-C; psycopg's own default
DOUBTED_AFTER_S = 1.0


class DatabaseIsAway(psycopg.OperationalError):
    """It did not answer a moment ago, so it was not asked, or nobody waits for it any longer."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer takes longer than ``answer_within_s``.

    The limit is the process's (``sessions.bound`` sets it). It is a little longer than
    ``statement_timeout``, so it ends only what the server no longer ends.

    With a ``breaker`` nobody waits for so long while the server gives no sign of life.
    """

    answer_within_s: float | None = None  # no limit
    breaker: Breaker | None = None

    def wait(self, gen: Any, interval: float = LOOK_EVERY_S, timeout: float | None = None) -> Any:
        """Raises ``psycopg.OperationalError``, after closing the connection, without an answer."""
        if timeout is not None or self.answer_within_s is None:
            return super().wait(gen, interval, timeout)
        try:
            if self.breaker is not None:
                self.breaker.refuse()
                gen = _doubting(gen, self.breaker)
            return super().wait(gen, interval, self.answer_within_s)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # the answer may still come, and nobody would know to what
            raise


def _doubting(gen: Any, breaker: Breaker) -> Generator[Any, Any, Any]:
    """The same, with a look at the breaker each ``LOOK_EVERY_S``. Raises ``DatabaseIsAway``."""
    doubt_at = time.monotonic() + DOUBTED_AFTER_S
    ready = None
    while True:
        try:
            state = gen.send(ready)
        except StopIteration as end:
            breaker.heard()
            return end.value
        ready = yield state
        if not ready:
            breaker.refuse()
            if time.monotonic() > doubt_at:
                breaker.doubt()
                doubt_at = time.monotonic() + DOUBTED_AFTER_S


class DatabaseWrapper(base.DatabaseWrapper):
    """Django connects by ``Database.connect``, or by the pool in ``OPTIONS``."""

    Database = SimpleNamespace(**{**vars(psycopg), "connect": BoundedConnection.connect})  # type: ignore[assignment]

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Raises ``psycopg.OperationalError``, at once while the breaker is open."""
        breaker = BoundedConnection.breaker
        if breaker is None:
            return self._new_or_pooled(conn_params)
        breaker.refuse()
        try:
            return self._new_or_pooled(conn_params)
        except psycopg.OperationalError:
            breaker.doubt()
            raise

    def _new_or_pooled(self, conn_params: dict[str, Any]) -> Any:
        """From the pool those that the server has ended are not taken: Django's own check asks it
        each time."""
        while is_lost(session := super().get_new_connection(conn_params)):
            session.close()
            if self.pool is not None:
                self.pool.putconn(session)
        return session


def is_lost(session: psycopg.Connection[Any]) -> bool:
    """True if the server has ended this idle session; costs no question to it.

    To a session that is idle PostgreSQL writes only that it ends.
    """
    if session.closed:
        return True
    poll = select.poll()
    poll.register(session.fileno(), select.POLLIN)
    return bool(poll.poll(0))
