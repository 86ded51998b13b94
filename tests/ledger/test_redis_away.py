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
from ledger.foundation import doorbell, redis_connections
from ledger.states import State
from ledger.workers import jobs
from tests import faults
from tests.processes import until

pytestmark = [
    pytest.mark.usefixtures("the_limits_of_redis"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]
# Whoever asks a hung Redis waits at least ``ANSWER_S``; what is compared with it below would else
# take as long many times over, and on a slow machine it takes far less than it.
A_FEW_LIMITS_S = 4 * (redis_connections.ANSWER_S + redis_connections.CONNECT_S)


@contextmanager
def hung_redis() -> Iterator[None]:
    try:
        with faults.frozen(doorbell.redis().info("server")["process_id"]):
            yield
    finally:
        until(_is_asked_again, 90, "Redis is asked again")


def _is_asked_again() -> bool:
    try:
        return bool(doorbell.redis().ping())
    except redis_connections.RedisIsAway:
        return False


def seconds_of(action: Callable[[], Any]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def quickest(action: Callable[[], Any]) -> float:
    """The least of a few times: a busy machine delays some of them, a limit delays them all."""
    return min(seconds_of(action) for _ in range(5))


def test_a_job_is_enqueued_within_the_limit_and_the_next_ones_fail_at_once():
    with hung_redis():
        first = seconds_of(lambda: jobs.enqueue("commit", "1"))
        others = seconds_of(lambda: [jobs.enqueue("commit", str(n)) for n in range(200)])

        assert first < A_FEW_LIMITS_S
        assert others < A_FEW_LIMITS_S
        assert not jobs.enqueue("commit", "1")

    assert jobs.enqueue("commit", "1")


def test_all_that_asks_redis_shares_the_breaker():
    with hung_redis():
        jobs.enqueue("commit", "1")

        reads = seconds_of(lambda: [polling.count_reads({"acme": 1}) for _ in range(50)])
        assert reads < A_FEW_LIMITS_S
        assert quickest(lambda: list(metrics.infrastructure(None))) < redis_connections.ANSWER_S
        for name in settings.RQ_QUEUES:
            with pytest.raises(redis_connections.RedisIsAway):
                django_rq.get_queue(name).is_empty()


def test_a_sign_off_takes_at_most_one_limit_longer(as_alice, a_payment):
    payments = iter([a_payment() for _ in range(11)])

    def approve() -> None:
        payment = next(payments)
        as_alice.post(f"/transactions/{payment.pk}/approve", {"digest": payment.intent_digest})
        payment.refresh_from_db()
        assert payment.state == State.APPROVED

    usual = quickest(approve)
    with hung_redis():
        assert seconds_of(approve) < usual + A_FEW_LIMITS_S
        assert quickest(approve) < usual + redis_connections.ANSWER_S


def test_a_process_that_rings_in_the_background_waits_for_nothing(a_payment, monkeypatch):
    monkeypatch.setattr(doorbell, "_background", doorbell._Background())
    payment = a_payment()
    with hung_redis():
        ring = quickest(lambda: doorbell.ring(1, payment.pk, "acme", "approved", [1, 2]))

    assert ring < redis_connections.ANSWER_S


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
