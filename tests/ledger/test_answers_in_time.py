"""A database that hangs: every process has its answer, or knows that there is none, in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from ledger.database.backend.base import BoundedConnection
from ledger.models import Tenant
from tests import faults

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]


@pytest.fixture
def limit(monkeypatch) -> Iterator[float]:
    monkeypatch.setattr(BoundedConnection, "answer_within_s", 0.5)
    yield 0.5
    connection.close()


def backend_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_a_frozen_server_is_given_up_in_time_and_asked_anew(limit, acme):
    pid = backend_pid()
    with faults.frozen(pid):
        began = time.monotonic()
        with pytest.raises(OperationalError):
            Tenant.objects.count()
        assert limit <= time.monotonic() - began < limit + 1.5

        connection.close()
        assert Tenant.objects.count() == 1, "by a new session"
        assert backend_pid() != pid


def test_an_answer_that_came_too_late_is_not_taken_for_another(limit):
    with connection.cursor() as cursor, pytest.raises(OperationalError):
        cursor.execute("SELECT pg_sleep(1), 'late'")
    assert not connection.is_usable()

    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'mine'")
        assert cursor.fetchone() == ("mine",)
