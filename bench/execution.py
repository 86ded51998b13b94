"""Approve → execute begins, sustained commits, expiry lag: with real workers and sweeper."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from approvals.processes import COURIER, SWEEPER, WORKER
from bench.engines import bench_person, engines, process

if TYPE_CHECKING:
    from ledger.principals import Principal

Ttl = Callable[[int], timedelta | None]


def prepared(
    number: int,
    ttl: Ttl = lambda place: None,
    *,
    tool: str = "measured",
    tenant: str = "bench",
) -> list[tuple[uuid.UUID, str]]:
    from ledger.api.rendering import render_token
    from ledger.models import Tenant, Transaction
    from ledger.principals import Surface, agent
    from ledger.transactions import coordinator
    from ledger.transactions.coordinator import Proposal

    Tenant.objects.get_or_create(slug=tenant, defaults={"name": tenant, "tools": ["*"]})
    ids = []
    for place in range(number):
        key = uuid.uuid4().hex
        answer = coordinator.prepare(
            Proposal(tool, {"name": key}, ttl=ttl(place)),
            by=agent(tenant, "bench", "Bench"),
            tenant=tenant,
            key=key,
            via=Surface.REST,
            render=render_token,
        )
        ids.append(answer.transaction_id)
    rows = Transaction.objects.filter(pk__in=ids)
    return list(rows.values_list("pk", "intent_digest"))


def approve(pk: uuid.UUID, digest: str) -> None:
    from ledger.principals import Surface
    from ledger.transactions import coordinator

    coordinator.approve(pk, digest=digest, by=approver(), via=Surface.WEB)


@cache
def approver() -> Principal:
    from approvals.people import principal_of

    person, _cookie = bench_person("alice", "approver")
    return principal_of(person)


def approve_to_execute(number: int = 300) -> dict[str, float]:
    """Milliseconds from the return of approve to the first line of execute, one at a time."""
    with ExitStack() as stack:
        for command in (WORKER.command, WORKER.command, COURIER.command, SWEEPER.command):
            stack.enter_context(process(*command))
        wait_for_workers()
        spans = _approved_to_begun(number)
    return {"p50 ms": _at(spans, 0.5), "p99 ms": _at(spans, 0.99)}


def beside_hanging_calls(number: int = 200) -> dict[str, float]:
    """The same, alone and while so many approved calls of another tenant's tool hang."""
    from ledger.models import Transaction

    with ExitStack() as stack:
        for command in (WORKER.command, WORKER.command, COURIER.command, SWEEPER.command):
            stack.enter_context(process(*command))
        wait_for_workers()
        alone = _approved_to_begun(number)
        for pk, digest in prepared(number, tool="hanging", tenant="another"):
            approve(pk, digest)
        hanging = Transaction.objects.filter(tenant="another", state="committing")
        while not hanging.exists():
            time.sleep(0.1)
        beside = _approved_to_begun(number)
        at_work = hanging.count()
    return {
        "alone p50 ms": _at(alone, 0.5),
        "alone p99 ms": _at(alone, 0.99),
        "beside p50 ms": _at(beside, 0.5),
        "beside p99 ms": _at(beside, 0.99),
        "calls that hang": at_work,
        "ratio of p99": _at(beside, 0.99) / _at(alone, 0.99),
    }


def _approved_to_begun(number: int) -> list[float]:
    from ledger.models import Transaction

    returned: dict[uuid.UUID, float] = {}
    for pk, digest in prepared(number):
        approve(pk, digest)
        returned[pk] = time.time()
        time.sleep(0.02)
    _until_committed(list(returned))
    began = Transaction.objects.filter(pk__in=returned).values_list("pk", "result")
    return sorted((result["began"] - returned[pk]) * 1000 for pk, result in began)


def commits_per_second(number: int = 1000) -> dict[str, float]:
    """A queue of approved transactions, carried out by two warm workers."""
    from django.db.models import Max, Min

    from ledger.models import Event, Transaction

    waiting = prepared(number)
    for pk, digest in waiting:
        approve(pk, digest)
    ids = [pk for pk, _ in waiting]
    with process(*WORKER.command) as one, process(*WORKER.command) as other:
        _until_committed(ids)
        cpu_s = sum(map(_cpu_seconds, (one, other)))
    events = Event.objects.filter(transaction_id__in=ids)
    first = events.filter(kind="claimed").aggregate(at=Min("at"))["at"]
    last = events.filter(kind="committed").aggregate(at=Max("at"))["at"]
    assert Transaction.objects.filter(pk__in=ids, state="committed").count() == number
    rate, bare = number / (last - first).total_seconds(), _bare_per_second(number // 4)
    return {
        "commits/s": rate,
        "bare statements/s": bare,
        "ratio": rate / bare,
        "worker CPU ms a commit": cpu_s * 1000 / number,
    }


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process, its start included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


_BARE = """
    WITH moved AS (UPDATE ledger_transaction
                   SET state = %s, fencing_token = fencing_token + 1, receipt = %s
                   WHERE id = %s RETURNING *)
    INSERT INTO ledger_event (subject, transaction_id, tenant, kind, to_state, principal,
        principal_name, via, details, reason, seq, from_state, reason_digest, previous_hash, hash)
    SELECT id, id, tenant, %s, state, 'system:worker', 'worker', 'system', '{"sets":{}}', '',
        0, '', '', '', '' FROM moved
"""


def _bare_per_second(number: int, connections: int = 2) -> float:
    """The rows of claim and record in one statement each, by psycopg alone on two connections."""
    import psycopg
    from django.db import connection

    info = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    dsn = {name: info[name] for name in names if info.get(name)}
    ids = [pk for pk, _ in prepared(number)]

    def carry_out(share: list[uuid.UUID]) -> None:
        with psycopg.connect(**dsn, autocommit=True) as bare:
            for pk in share:
                bare.execute(_BARE, ["committing", "", pk, "claimed"], prepare=True)
                bare.execute(_BARE, ["committed", "r", pk, "committed"], prepare=True)

    shares = [ids[n::connections] for n in range(connections)]
    threads = [threading.Thread(target=carry_out, args=[share]) for share in shares]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return number / (time.perf_counter() - began)


def expiry_lag(number: int = 300) -> dict[str, float]:
    """Milliseconds from ``expires_at`` to the event that says so, by the database's clock."""
    from django.db.models import F

    from ledger.models import Event

    with process("manage.py", "sweep"):
        spread = 8 / number
        ids = [pk for pk, _ in prepared(number, lambda n: timedelta(seconds=8 + n * spread))]
        deadline = time.monotonic() + 60
        expired = Event.objects.filter(transaction_id__in=ids, kind="expired")
        while expired.count() < number and time.monotonic() < deadline:
            time.sleep(0.1)
        lags = expired.annotate(lag=F("at") - F("transaction__expires_at"))
        spans = sorted(lag.total_seconds() * 1000 for lag in lags.values_list("lag", flat=True))
    assert len(spans) == number
    return {"p50 ms": _at(spans, 0.5), "p99 ms": _at(spans, 0.99)}


def wait_for_workers() -> None:
    """Return once two workers and a courier are registered."""
    from django.conf import settings
    from redis import Redis
    from rq import Worker

    connection = Redis.from_url(settings.REDIS_URL)
    while len(Worker.all(connection=connection)) < 3:
        time.sleep(0.05)


def _until_committed(ids: list[uuid.UUID]) -> None:
    from ledger.models import Transaction

    is_last = Transaction.objects.filter(pk=ids[-1], state="committed")
    left = Transaction.objects.filter(pk__in=ids).exclude(state="committed")
    deadline = time.monotonic() + 120
    # Cheap looks while there is much to do: the machine is shared with what is measured.
    while not (is_last.exists() and not left.exists()) and time.monotonic() < deadline:
        time.sleep(0.1)


def _at(spans: list[float], share: float) -> float:
    return spans[min(len(spans) - 1, int(len(spans) * share))]


def main() -> None:
    """``python -m bench.execution``: this part alone."""
    with engines():
        for measure in (commits_per_second, approve_to_execute):
            for name, value in measure().items():
                print(f"{measure.__name__:<24} {name:<32} {value:10.2f}")


if __name__ == "__main__":
    main()
