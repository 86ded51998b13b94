"""A Redis that hangs costs a process one time limit, and nobody's click more than that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django_rq
import pytest
from django.conf import settings

from a2a import polling
from approvals import metrics
from ledger import doorbell, redis_client
from ledger.states import State
from ledger.workers import jobs
from tests import faults
from tests.processes import until

pytestmark = [
    pytest.mark.usefixtures("the_limits_of_redis"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]
ONE_LIMIT_S = redis_client.ANSWER_S + redis_client.CONNECT_S + 0.2


@contextmanager
def hung_redis() -> Iterator[None]:
    try:
        with faults.frozen(doorbell.redis().info("server")["process_id"]):
            yield
    finally:
        until(_is_asked_again, 10, "Redis is asked again")


def _is_asked_again() -> bool:
    try:
        return bool(doorbell.redis().ping())
    except redis_client.RedisIsAway:
        return False


def seconds_of(action: Callable[[], Any]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def test_a_job_is_enqueued_within_the_limit_and_the_next_ones_fail_at_once():
    with hung_redis():
        first = seconds_of(lambda: jobs.enqueue("commit", "1"))
        others = seconds_of(lambda: [jobs.enqueue("commit", str(n)) for n in range(200)])

        assert first < ONE_LIMIT_S
        assert others < 0.2
        assert not jobs.enqueue("commit", "1")

    assert jobs.enqueue("commit", "1")


def test_all_that_asks_redis_shares_the_breaker():
    with hung_redis():
        jobs.enqueue("commit", "1")

        assert seconds_of(lambda: polling.count_reads({"acme": 1})) < 0.1
        assert seconds_of(lambda: list(metrics.infrastructure(None))) < 0.5
        for name in settings.RQ_QUEUES:
            with pytest.raises(redis_client.RedisIsAway):
                django_rq.get_queue(name).is_empty()


def test_a_sign_off_takes_at_most_one_limit_longer(as_alice, a_payment):
    before, first, second = a_payment(), a_payment(), a_payment()

    def approve(payment: Any) -> None:
        as_alice.post(f"/transactions/{payment.pk}/approve", {"digest": payment.intent_digest})
        payment.refresh_from_db()
        assert payment.state == State.APPROVED

    approve(before)  # the first page of a process takes longer
    with hung_redis():
        assert seconds_of(lambda: approve(first)) < ONE_LIMIT_S + 0.5
        assert seconds_of(lambda: approve(second)) < 0.5


def test_a_process_that_rings_in_the_background_waits_for_nothing(a_payment, monkeypatch):
    monkeypatch.setattr(doorbell, "_background", doorbell._Background())
    payment = a_payment()
    with hung_redis():
        ring = seconds_of(lambda: doorbell.ring(1, payment.pk, "acme", "approved", [1, 2]))

    assert ring < 0.1


def test_bells_in_the_background_are_rung_in_order(a_payment, monkeypatch):
    payment = a_payment()  # whose own bell is rung by now
    monkeypatch.setattr(doorbell, "_background", doorbell._Background())
    heard: list[int] = []

    def listen(event_id: int, **_: Any) -> None:
        heard.append(event_id)

    doorbell.register_bell(listen)
    for number in range(50):
        doorbell.ring(number, payment.pk, "acme", "test")

    until(lambda: len(heard) == 50, what="all were rung")
    assert heard == list(range(50))
