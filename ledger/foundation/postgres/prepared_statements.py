"""Statements PostgreSQL prepares, and so plans once, and those it plans at each execution.

The plan of a prepared statement becomes generic and can be wrong for small tenants: it may read a
whole table. So only statements of the hot path that look rows up by full keys are prepared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from ledger.foundation.postgres import poolers

PREPARE_AFTER = 3  # executions of one statement on one connection


@contextmanager
def use_prepared_statements() -> Iterator[None]:
    """Inside, statements that are executed often are prepared on this connection.

    Not where the session is another one for each database transaction.
    """
    connection.ensure_connection()
    if poolers.may_change_session():
        yield
        return
    driver = connection.connection
    before, driver.prepare_threshold = driver.prepare_threshold, PREPARE_AFTER
    try:
        yield
    finally:
        driver.prepare_threshold = before
