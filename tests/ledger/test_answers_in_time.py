"""A database that hangs: every process has its answer, or knows that there is none, in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import django_rq
import pytest
from django.db import OperationalError, connection

from ledger.foundation.backoff import Backoff
from ledger.foundation.postgres import Outage
from ledger.foundation.postgres.backend.base import BoundedConnection
from ledger.models import Tenant
from ledger.states import State
from ledger.workers import jobs, queues
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
        assert limit <= time.monotonic() - began < 10 * limit

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


def test_a_worker_without_the_database_puts_its_job_back_with_one_line_of_log(
    approved, monkeypatch, caplog
):
    payment, tries = approved(), []
    commit = queues.JOBS["commit"][0]

    def commit_after_two_outages(subject: UUID) -> None:
        tries.append(subject)
        if len(tries) <= 2:
            connection.close()
            raise OperationalError("connection refused")
        commit(subject)

    monkeypatch.setitem(queues.JOBS, "commit", (commit_after_two_outages, UUID))
    monkeypatch.setattr(queues, "PAUSE", Backoff(timedelta(0), timedelta(0)))
    monkeypatch.setattr(queues.WarmWorker, "_outage", Outage("this worker", queues.logger))
    django_rq.get_queue("commit").empty()
    jobs.enqueue("commit", payment.pk)
    caplog.set_level("WARNING")

    queues.work_off(["commit"])

    payment.refresh_from_db()
    assert payment.state == State.COMMITTED
    assert len(tries) >= 3, "the approval may have enqueued a job of its own by now"
    lines = [record for record in caplog.records if record.name == queues.logger.name]
    assert [record.exc_info for record in lines] == [None, None]
    assert "does not answer" in lines[0].message
    assert "answers this worker again" in lines[1].message
    assert len(django_rq.get_queue("commit").failed_job_registry) == 0
