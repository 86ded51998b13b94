"""Which statements PostgreSQL plans once, and which it plans each time.

A kept plan is for the average tenant; for a small one it may read the whole table. So pages are
planned each time, and only the few statements of the hot path, which go by whole keys, are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

KEEP_AFTER = 3  # executions of one statement on one connection


@contextmanager
def kept() -> Iterator[None]:
    """Statements in here are planned once per connection."""
    connection.ensure_connection()
    wire = connection.connection
    before, wire.prepare_threshold = wire.prepare_threshold, KEEP_AFTER
    try:
        yield
    finally:
        wire.prepare_threshold = before
