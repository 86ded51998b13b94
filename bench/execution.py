"""Approve → execute begins, sustained commits, expiry lag: with real workers and sweeper."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta

from bench.engines import process

Ttl = Callable[[int], timedelta | None]


def _prepared(number: int, ttl: Ttl = lambda place: None) -> list[tuple[uuid.UUID, str]]:
    from ledger.api.rendering import render_token
    from ledger.models import Transaction
    from ledger.principals import Surface, agent
    from ledger.transactions import coordinator
    from ledger.transactions.coordinator import Proposal

    ids = []
    for place in range(number):
        key = uuid.uuid4().hex
        answer = coordinator.prepare(
            Proposal("measured", {"name": key}, ttl=ttl(place)),
            by=agent("bench", "bench", "Bench"),
            tenant="bench",
            key=key,
            via=Surface.REST,
            render=render_token,
        )
        ids.append(answer.transaction_id)
    rows = Transaction.objects.filter(pk__in=ids)
    return list(rows.values_list("pk", "intent_digest"))


def _approve(pk: uuid.UUID, digest: str) -> None:
    from ledger.principals import Surface, user
    from ledger.transactions import coordinator

    coordinator.approve(pk, digest=digest, by=user("alice", "Alice"), via=Surface.WEB)


def approve_to_execute(number: int = 300) -> dict[str, float]:
    """Milliseconds from the return of approve to the first line of execute, one at a time."""
    from ledger.models import Transaction

    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(process("manage.py", "work"))
        stack.enter_context(process("manage.py", "sweep"))
        _wait_for_workers()
        returned: dict[uuid.UUID, float] = {}
        for pk, digest in _prepared(number):
            _approve(pk, digest)
            returned[pk] = time.time()
            time.sleep(0.02)
        _until_committed(list(returned))
        began = Transaction.objects.filter(pk__in=returned).values_list("pk", "result")
        spans = sorted((result["began"] - returned[pk]) * 1000 for pk, result in began)
    return {"p50 ms": _at(spans, 0.5), "p99 ms": _at(spans, 0.99)}


def commits_per_second(number: int = 2000) -> dict[str, float]:
    """A queue of approved transactions, carried out by two warm workers."""
    from django.db.models import Max, Min

    from ledger.models import Event, Transaction

    waiting = _prepared(number)
    for pk, digest in waiting:
        _approve(pk, digest)
    ids = [pk for pk, _ in waiting]
    with process("manage.py", "work"), process("manage.py", "work"):
        _until_committed(ids)
    events = Event.objects.filter(transaction_id__in=ids)
    first = events.filter(kind="claimed").aggregate(at=Min("at"))["at"]
    last = events.filter(kind="committed").aggregate(at=Max("at"))["at"]
    assert Transaction.objects.filter(pk__in=ids, state="committed").count() == number
    return {"commits/s": number / (last - first).total_seconds()}


def expiry_lag(number: int = 300) -> dict[str, float]:
    """Milliseconds from ``expires_at`` to the event that says so, by the database's clock."""
    from django.db.models import F

    from ledger.models import Event

    with process("manage.py", "sweep"):
        spread = 8 / number
        ids = [pk for pk, _ in _prepared(number, lambda n: timedelta(seconds=8 + n * spread))]
        deadline = time.monotonic() + 60
        expired = Event.objects.filter(transaction_id__in=ids, kind="expired")
        while expired.count() < number and time.monotonic() < deadline:
            time.sleep(0.1)
        lags = expired.annotate(lag=F("at") - F("transaction__expires_at"))
        spans = sorted(lag.total_seconds() * 1000 for lag in lags.values_list("lag", flat=True))
    assert len(spans) == number
    return {"p50 ms": _at(spans, 0.5), "p99 ms": _at(spans, 0.99)}


def _wait_for_workers() -> None:
    from django.conf import settings
    from redis import Redis
    from rq import Worker

    connection = Redis.from_url(settings.REDIS_URL)
    while len(Worker.all(connection=connection)) < 2:
        time.sleep(0.05)


def _until_committed(ids: list[uuid.UUID]) -> None:
    from ledger.models import Transaction

    left = Transaction.objects.filter(pk__in=ids).exclude(state="committed")
    deadline = time.monotonic() + 120
    while left.exists() and time.monotonic() < deadline:
        time.sleep(0.1)


def _at(spans: list[float], share: float) -> float:
    return spans[min(len(spans) - 1, int(len(spans) * share))]
