"""Chooses which of several sweepers works: the one that holds a lease, by the database's clock.

A sweeper that dies or hangs, or whose host is lost, stops renewing its lease, and another one takes
over. No session of the database is involved, so nothing has to notice that a session is gone.

A sweeper that wakes up after its lease has ended finds out before the next row (``keep``). What it
does to the one row at hand is harmless, because every step is a compare-and-set by the state of the
row and the database's clock, a job that may run twice, or under a lock (erasing, checkpoints).
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now

from ledger.models import SweeperLease

LEASE = timedelta(seconds=3)
RENEW_EVERY_S = 0.5

TAKE = """
    INSERT INTO ledger_sweeperlease AS lease (id, epoch, holder, beat_at)
    VALUES (1, 1, %s, clock_timestamp())
    ON CONFLICT (id) DO UPDATE
    SET epoch = lease.epoch + 1, holder = excluded.holder, beat_at = excluded.beat_at
    WHERE lease.beat_at < clock_timestamp() - make_interval(secs => %s)
    RETURNING epoch
"""


class LeaseLost(Exception):
    """Another sweeper has taken over."""


class Leadership:
    """This process's claim to be the sweeper that works."""

    def __init__(self) -> None:
        host = socket.gethostname()[:100]
        self._holder = f"{host}, process {os.getpid()}, {secrets.token_hex(4)}"
        self._epoch = 0  # none yet
        self._renewed_at = 0.0

    def take(self) -> bool:
        """Renew the lease, or take it if its holder has been silent; whether we hold it."""
        try:
            if self._epoch:
                self._renew()
                return True
        except LeaseLost:
            pass
        with connection.cursor() as cursor:
            cursor.execute(TAKE, [self._holder, LEASE.total_seconds()])
            row = cursor.fetchone()
        self._epoch = row[0] if row else 0
        self._renewed_at = time.monotonic()
        return row is not None

    def keep(self) -> None:
        """Renew the lease now and then; cheap between two rows. Raises ``LeaseLost``."""
        if time.monotonic() - self._renewed_at >= RENEW_EVERY_S:
            self._renew()

    def give_up(self) -> None:
        """Let another sweeper take over at once."""
        if self._epoch:
            self._ours().update(beat_at=Now() - 2 * LEASE)
            self._epoch = 0

    def _ours(self) -> QuerySet[SweeperLease]:
        return SweeperLease.objects.filter(epoch=self._epoch, holder=self._holder)

    def _renew(self) -> None:
        if not self._ours().update(beat_at=Now()):
            self._epoch = 0
            raise LeaseLost
        self._renewed_at = time.monotonic()


def last_beat() -> datetime | None:
    """Time at which a sweeper last gave a sign of life, by the database's clock."""
    return SweeperLease.objects.values_list("beat_at", flat=True).first()
