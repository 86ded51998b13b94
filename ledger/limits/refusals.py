"""Number of times each limit refused lately, for `/ops/` and `/metrics`.

Refusing has to be cheap, so a process only counts in memory; a thread of it adds the numbers to the
table every few seconds. A process that is killed loses those of its last seconds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta

from django.db import connection
from django.db.models.functions import Now

from ledger.limits.terms import Limit, Of
from ledger.models import LimitRefusal

logger = logging.getLogger(__name__)

FLUSH_EVERY_S = 5.0
KEPT = timedelta(days=7)

_counts: Counter[tuple[str, str, str, str]] = Counter()
_lock = threading.Lock()
_flusher_of = 0  # the process whose thread runs; a forked one starts its own


def count(limit: Limit, of: Of, *, tenant: str = "", agent: str = "") -> None:
    """Count one refused request. ``tenant`` and ``agent`` are slugs, empty for an address."""
    global _flusher_of
    with _lock:
        _counts[(limit, of, tenant, agent)] += 1
        if _flusher_of == os.getpid():
            return
        with suppress(RuntimeError):  # the system has no thread left; the next refusal tries again
            threading.Thread(target=_flush_for_ever, name="refusals", daemon=True).start()
            _flusher_of = os.getpid()


def _flush_for_ever() -> None:
    while True:
        time.sleep(FLUSH_EVERY_S)
        try:
            flush()
        except Exception as failure:
            logger.info("refusals are counted later: %s", failure)
        finally:
            connection.close()


def flush() -> None:
    """Add the counts of this process to the table."""
    with _lock:
        counts = dict(_counts)
        _counts.clear()
    if not counts:
        return
    try:
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, [[*key, number] for key, number in counts.items()])
    except BaseException:
        with _lock:
            _counts.update(counts)
        raise


_ADD = """
    INSERT INTO ledger_limitrefusal (minute, "limit", "of", tenant, agent, number)
    VALUES (date_trunc('minute', now()), %s, %s, %s, %s, %s)
    ON CONFLICT (minute, "limit", "of", tenant, agent)
    DO UPDATE SET number = ledger_limitrefusal.number + excluded.number
"""


def forget() -> None:
    """For tests: nothing has been counted, and no thread of this process writes to the table."""
    global _flusher_of
    with _lock:
        _counts.clear()
        _flusher_of = os.getpid()


def prune_refusals() -> None:
    """Delete what is older than ``KEPT``."""
    LimitRefusal.objects.filter(minute__lt=Now() - KEPT).delete()
