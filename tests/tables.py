"""Taking back what a test wrote: a rolled back part, or all tables after a test that commits.

Django empties by TRUNCATE, which makes a new file for every table and every index, and then writes
its permissions anew: a quarter of a second after each such test. The tables hold few rows, so
DELETE takes a twentieth of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from django.db import OperationalError, connection, transaction
from django.test import TransactionTestCase
from psycopg import sql

# Written by `migrate` alone, and the same in every test.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}


@contextmanager
def taken_back() -> Iterator[None]:
    """What is written within it is undone at its end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def empty_the_tables() -> None:
    """Delete all rows; wait for transactions of other connections that still write.

    The role of a replica runs neither triggers nor foreign keys, so that rows which the ledger
    never lets go of can be deleted, in any order.
    """
    for last in (False, False, True):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(_statements())
            return
        except OperationalError:  # a deadlock with a process of the test that is just ending
            if last:
                raise


@cache
def _statements() -> str:
    names = set(connection.introspection.django_table_names(only_existing=True)) - KEPT
    tables = [sql.Identifier(name) for name in sorted(names)]
    deletes = [sql.SQL("DELETE FROM {};").format(table) for table in tables]
    return (
        sql.SQL(
            "SET LOCAL session_replication_role = replica;"
            "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE; {}"
        )
        .format(sql.SQL(",").join(tables), sql.SQL("").join(deletes))
        .as_string(None)
    )


def after_tests_that_commit() -> None:
    """Let pytest-django's tests that commit be cleaned up this way."""
    TransactionTestCase._fixture_teardown = lambda self: empty_the_tables()
