"""Which sweeper works, and what it does while Redis or a row is not to be had."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils import timezone

from ledger.models import SweeperLease, Transaction
from ledger.states import State
from ledger.workers import leadership, queues, sweeper
from ledger.workers.leadership import Leadership, LeaseLost
from ledger.workers.sweeper import Sweeper
from tests.conftest import propose
from tests.forgery import move_deadline
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


def fall_silent(seconds: float = 4) -> None:
    SweeperLease.objects.update(beat_at=Now() - timedelta(seconds=seconds))


def test_one_sweeper_works_while_it_gives_signs_of_life():
    first, second = Leadership(), Leadership()

    assert first.take()
    assert not second.take()
    assert first.take()


def test_another_takes_over_from_a_silent_one_which_finds_out_before_the_next_row(monkeypatch):
    monkeypatch.setattr(leadership, "RENEW_EVERY_S", 0)
    first, second = Leadership(), Leadership()
    first.take()
    fall_silent()

    assert second.take()
    with pytest.raises(LeaseLost):
        first.keep()
    assert not first.take()
    second.keep()


def test_a_sweeper_that_stops_hands_over_at_once():
    first, second = Leadership(), Leadership()
    first.take()

    first.give_up()

    assert second.take()


def test_of_two_that_take_over_at_once_one_succeeds():
    Leadership().take()
    fall_silent()
    taken: list[bool] = []

    def take() -> None:
        try:
            taken.append(Leadership().take())
        finally:
            connection.close()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == [False] * 7 + [True]


def test_a_sweeper_told_to_stop_ends_between_two_rows(monkeypatch, acme):
    stop, asked = threading.Event(), []
    for _ in range(3):
        move_deadline(propose().pk, milliseconds=0)
    expire = sweeper.coordinator.expire

    def expire_and_stop(pk: Any) -> None:
        asked.append(pk)
        expire(pk)
        stop.set()

    monkeypatch.setattr(sweeper.coordinator, "expire", expire_and_stop)
    monkeypatch.setattr(sweeper, "_go_on", None)

    Sweeper().run(stop)

    assert len(asked) == 1
    assert Leadership().take(), "it gave up the lease"


def test_a_row_that_somebody_has_locked_keeps_no_other_from_expiring(acme):
    locked, free = propose(), propose()
    for row in (locked, free):
        move_deadline(row.pk, milliseconds=0)
    holds, may_end = threading.Event(), threading.Event()

    def hold_the_row() -> None:
        try:
            with atomic(), connection.cursor() as cursor:
                cursor.execute(
                    "SELECT FROM ledger_transaction WHERE id = %s FOR UPDATE", [locked.pk]
                )
                holds.set()
                may_end.wait(20)
        finally:
            connection.close()

    thread = threading.Thread(target=hold_the_row)
    thread.start()
    holds.wait(10)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '200ms'")
        Sweeper().sweep()
    finally:
        may_end.set()
        thread.join()
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")

    free.refresh_from_db()
    locked.refresh_from_db()
    assert (free.ending, locked.state) == ("expired", State.PREPARED)


def test_without_redis_a_job_in_hand_is_not_begun_again_in_each_round(monkeypatch):
    begun, may_end = [], threading.Event()

    def run(subject: str) -> None:
        begun.append(subject)
        may_end.wait(20)

    monkeypatch.setitem(queues.JOBS, "another", (run, str))
    monkeypatch.setattr(sweeper, "enqueue", lambda *job: False)
    monkeypatch.setattr(sweeper, "_queue_length", lambda name: None)
    subjects = [str(uuid4()) for _ in range(10)]
    working = Sweeper()
    for _ in range(5):
        working._enqueue_due("another", subjects)

    assert len(working._in_hand) == 10
    may_end.set()
    until(lambda: not working._in_hand, what="all are done")
    assert sorted(begun) == sorted(subjects)


def test_a_tool_for_which_many_wait_hides_no_other_from_the_workers(a_payment, alice, monkeypatch):
    monkeypatch.setattr(sweeper, "BATCH", 4)
    monkeypatch.setattr(sweeper, "GRACE", timedelta(0))
    rows = [a_payment() for _ in range(6)] + [propose("scuttle", rocket="r-1")]
    for row in rows:
        Transaction.objects.filter(pk=row.pk).update(state="approved", decided_at=Now())
    enqueued: list[str] = []
    monkeypatch.setattr(sweeper, "enqueue", lambda _, job_id: enqueued.append(job_id) or True)

    Sweeper()._enqueue_work()

    assert len(enqueued) == 4
    assert str(rows[-1].pk) in enqueued


def test_operators_are_warned_when_no_sweeper_runs(as_olga, as_alice):
    Leadership().take()
    assert b"No sweeper has run" not in as_olga.get("/").content

    fall_silent(30)

    assert b"No sweeper has run for 3" in as_olga.get("/").content
    assert b"No sweeper has run" not in as_alice.get("/").content
    assert timezone.now() - leadership.last_beat() > timedelta(seconds=29)
