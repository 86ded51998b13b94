"""Up to which event the log is complete."""

from __future__ import annotations

from datetime import timedelta

from django.db import OperationalError, connection
from django.db.models import Max
from django.db.transaction import atomic

from ledger.models import Event


def last_settled_event(patience: timedelta = timedelta(milliseconds=500)) -> int | None:
    """The largest event id below which no writer is still at work.

    Ids are given out before commit, so "the largest that I see" may skip one that commits later.
    Locking writers out for an instant settles it; if that takes longer, ``None``: not now.
    """
    try:
        with atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{patience // timedelta(milliseconds=1)}ms'")
            cursor.execute("SELECT ledger_keep_writers_out()")
            given = Event.objects.filter(pk__lte=cursor.fetchone()[0])
            last: int | None = given.aggregate(last=Max("pk"))["last"]
            return last
    except OperationalError:
        return None
