"""Processes that stand still with work in hand: others take over, and nothing is done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection
from django.db.models.functions import Now

from approvals.processes import WEB
from ledger.models import Delivery
from ledger.proof.audit.verification import verify
from ledger.states import State
from tests import faults
from tests.chaos.people import Load, committed, refunds, report, seconds_of, state_of
from tests.ledger.test_couriers import Receiver
from tests.ledger.webhook_receiver import SECRET
from tests.processes import ROOT, Product, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]


def fault(product: Product, mode: str, seconds: float) -> None:
    fields = {"path": "/payments/refunds", "mode": mode, "seconds": seconds}
    httpx.post(f"{product.sandbox_url}/faults", json=fields).raise_for_status()


def start_another(product: Product, name: str, **environment: str) -> int:
    """Start a second process of this kind; the first one's id."""
    product.processes[f"first {name}"] = first = product.processes.pop(name)
    product.start(name, **environment)
    return first.pid


def test_a_worker_freezes_with_a_call_in_hand(product, people, capsys):
    """Another carries it out, and everything that is decided meanwhile. Each has one effect."""
    product.start("web", "worker", "sweeper")
    alice, agent = people(product)
    usual = max(seconds_of(lambda: alice.approve(agent.propose())) for _ in range(3))
    until(lambda: refunds(product) == 3, 90, "the usual ones are refunded")
    fault(product, "delay_before_work", 3)
    row = agent.propose()
    alice.approve(row)
    until(lambda: state_of(row) == State.COMMITTING, what="it is in hand")

    load = Load(alice, agent)
    with faults.frozen(product.processes["worker"].pid), load.going_on():
        start_another(product, "worker")
        took = seconds_of(lambda: until(lambda: committed(row), 90, "carried out by the other"))
    until(lambda: committed(*load.rows), 90, "all are carried out")

    report(
        capsys,
        f"worker frozen: its transaction done {took:.1f} s after another started; click "
        f"{usual:.2f} → {max(load.clicks):.2f} s",
    )
    assert max(load.clicks) <= usual + 1
    assert took < 10
    time.sleep(0.5)  # the one that woke up could do harm
    assert refunds(product) == 3 + 1 + len(load.rows)
    verify()


def test_an_idle_worker_freezes(product, people, capsys):
    """Redis gives it the next job, which it never does: the sweeper finds the transaction."""
    product.start("web", "worker", "sweeper")
    first = start_another(product, "worker")
    alice, agent = people(product)
    alice.approve(agent.propose())
    until(lambda: refunds(product) == 1, 90, "the usual one is refunded")

    with faults.frozen(first):
        rows = [agent.propose() for _ in range(5)]
        for row in rows:
            alice.approve(row)
        took = seconds_of(lambda: until(lambda: committed(*rows), 90, "carried out"))

    report(capsys, f"idle worker frozen: five transactions done after {took:.1f} s")
    assert took < 5
    assert refunds(product) == 6
    verify()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.thaw.set()
    receiver.shutdown()
    receiver.server_close()


def test_a_courier_freezes_with_messages_in_hand(product, people, receiver, helpdesk, capsys):
    """Another delivers what comes, and, when their time is over, those in hand, with their ids."""
    helpdesk.webhook_url, helpdesk.webhook_secret = receiver.url("frozen"), SECRET
    helpdesk.save()
    environment = {"ASSENT_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    product.start("web", "courier", "commits", "sweeper", **environment)
    alice, agent = people(product)
    alice.approve(agent.propose())
    until(lambda: receiver.frozen >= 1, 90, "a message is in hand")
    waiting = Delivery.objects.filter(channel="webhook", state="waiting").exclude(recipient="")

    load = Load(alice, agent)
    with faults.frozen(product.processes["courier"].pid):
        in_hand = set(waiting.filter(attempts__gte=1).values_list("pk", flat=True))
        receiver.thaw.set()
        start_another(product, "courier", **environment)
        with load.going_on():
            until(lambda: len(load.rows) >= 10, 90, "ten are asked for")
        until(lambda: committed(*load.rows), 90, "all are done")
        others = waiting.exclude(pk__in=in_hand)
        took = seconds_of(lambda: until(lambda: not others.exists(), 90, "the others are told"))
        waiting.filter(pk__in=in_hand).update(next_attempt_at=Now())  # as after a minute
        until(lambda: not waiting.exists(), 90, "those in hand are told")

    report(capsys, f"courier frozen: all of ten transactions told {took:.1f} s after the last one")
    assert took < 5
    told = Delivery.objects.filter(channel="webhook").exclude(recipient="")
    assert set(receiver.ids) >= {f"msg_{pk}" for pk in told.values_list("pk", flat=True)}
    verify()


SUPERVISE = """
import os, sys
from approvals.local.programs import Program
from approvals.local.supervisor import Supervisor
command = [sys.executable, *sys.argv[1:]]
web = [Program(f"web-{number}", command, dict(os.environ)) for number in (1, 2)]
sys.exit(Supervisor([web]).run())
"""


@pytest.fixture
def supervised_web(product: Product) -> Iterator[subprocess.Popen[bytes]]:
    """Two web processes at the live address, as ``manage.py up`` runs them."""
    serve = ["--host", "127.0.0.1", "--port", str(product.web_port), "--log-level", "warning"]
    with (product.logs / "supervisor.log").open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SUPERVISE, *WEB.command, *serve],
            cwd=ROOT,
            env=product._environment_of("web"),
            stdout=log,
            stderr=log,
        )
    product._wait_until_up("web")
    yield supervisor
    supervisor.send_signal(signal.SIGTERM)
    supervisor.wait(30)


def web_workers(supervisor: int) -> list[int]:
    """The processes that serve: the children of granian's two main processes."""
    mains = [pid for pid in faults.descendants(supervisor) if is_granian(pid)]
    return [child for main in mains for child in faults.descendants(main) if is_granian(child)]


def is_granian(pid: int) -> bool:
    return "granian" in faults.command_line(pid)


def page(product: Product, path: str = "/sign-in/") -> tuple[int, float]:
    """Status and seconds of a page, on a connection of its own; 0 for a connection that ended."""
    began = time.monotonic()
    try:
        status = httpx.get(f"{product.environment['ASSENT_LIVE_URL']}{path}", timeout=20)
        return status.status_code, time.monotonic() - began
    except httpx.TransportError:
        return 0, time.monotonic() - began


def has_answered(product: Product, web_worker: int) -> bool:
    """Once it answers it says that it lives; before, nobody could tell that it stands still."""
    page(product, "/api/v1/nothing")  # which is logged
    lines = product.log("supervisor").splitlines()
    return any(f'"web:{web_worker}"' in line and "/api/v1/nothing" in line for line in lines)


def test_a_web_process_freezes(product, supervised_web, capsys):
    """The other answers; the frozen one is killed within seconds and replaced."""
    until(lambda: len(web_workers(supervised_web.pid)) == 2, 90, "two processes serve")
    frozen, other = web_workers(supervised_web.pid)
    until(lambda: has_answered(product, frozen) and has_answered(product, other))

    with faults.frozen(frozen), ThreadPoolExecutor(16) as pool:
        began = time.monotonic()
        pages = [pool.submit(page, product) for _ in range(16)]
        until(lambda: frozen not in web_workers(supervised_web.pid), 60, "it is killed")
        killed = time.monotonic() - began
        answers = [each.result() for each in pages]
    until(lambda: len(web_workers(supervised_web.pid)) == 2, 90, "it is replaced")
    replaced = time.monotonic() - began

    quick = [took for status, took in answers if status == 200 and took < 2]
    report(
        capsys,
        f"web frozen: {len(quick)} of 16 pages answered within {max(quick, default=0):.2f} s, "
        f"killed after {killed:.1f} s, replaced after {replaced:.1f} s",
    )
    assert quick, "the other process answers"
    assert other in web_workers(supervised_web.pid), "the other process was not disturbed"
    assert {page(product)[0] for _ in range(8)} == {200}


BLOCKED = """
import asyncio, django, time; django.setup()
from approvals import health
health.BLOCKED_S = 4.0
async def serve():
    watchdog = asyncio.create_task(health.end_if_blocked())
    await asyncio.sleep(5)
    print("served for longer than that", flush=True)
    time.sleep(60)
asyncio.run(serve())
"""


def test_a_process_whose_event_loop_is_blocked_ends_itself_and_says_where():
    began = time.monotonic()

    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED], cwd=ROOT, capture_output=True, text=True, timeout=50
    )

    assert (ended.returncode, "served for longer" in ended.stdout) == (1, True)
    assert "line 9 in serve" in ended.stderr, "where it stood still"
    assert time.monotonic() - began < 30


STARVED = """
import asyncio, django, os, subprocess, sys, time; django.setup()
from approvals import health
health.BLOCKED_S = 3.0
async def serve():
    watchdog = asyncio.create_task(health.end_if_blocked())
    await asyncio.sleep(0.1)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    hog = "import time\\nend = time.monotonic() + 10\\nwhile time.monotonic() < end: pass"
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", hog], stdout=subprocess.DEVNULL, stderr=-3)
    os.nice(19)
    deadline = time.monotonic() + 8
    while time.monotonic() < deadline:
        pass  # the loop stands still, for want of a processor
    await asyncio.sleep(0)
    print("went on", flush=True)
asyncio.run(serve())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_a_process_that_waits_for_a_processor_is_not_taken_for_blocked():
    starved = subprocess.run(
        [sys.executable, "-c", STARVED], cwd=ROOT, capture_output=True, text=True, timeout=100
    )

    assert (starved.returncode, starved.stdout) == (0, "went on\n"), starved.stderr


def postmaster() -> int:
    """The process of the tests' PostgreSQL that started all its others."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    return int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])


FROZEN_S = 15.0


def test_postgresql_freezes(product, people, capsys):
    """Every click has an answer within its limit. Nothing is lost or done twice."""
    product.start("web", "worker", "sweeper")
    alice, agent = people(product)
    rows = [agent.propose() for _ in range(6)]
    alice.approve(rows[0])
    until(lambda: committed(rows[0]), 90, "the usual one is refunded")
    whole = faults.family(postmaster())

    def propose(number: int) -> httpx.Response:
        arguments = {"payment_id": "pay_1042", "amount": "1.00", "reason": f"frozen {number}"}
        body = {"tool": "refund_customer", "arguments": arguments}
        return agent.http.post(
            "/transactions", json=body, headers={"Idempotency-Key": f"frozen-{number}"}
        )

    def timed(action: Any, subject: Any) -> tuple[int, float]:
        began = time.monotonic()
        return action(subject).status_code, time.monotonic() - began

    with ThreadPoolExecutor(12) as pool:
        with faults.frozen(*whole):
            asked = [pool.submit(timed, alice.approve, row) for row in rows[1:]]
            asked += [pool.submit(timed, propose, number) for number in range(5)]
            time.sleep(FROZEN_S)
        went_on = time.monotonic()
        answers = [each.result() for each in asked]

    def all_is_done() -> bool:
        statuses = [alice.approve(row).status_code for row in rows[1:]]
        return set(statuses) <= {302, 409} and committed(*rows)

    until(all_is_done, 60, "approved and carried out afterwards")
    recovered = time.monotonic() - went_on
    proposed = [until(lambda n=n: propose(n).status_code == 201, 30) for n in range(5)]
    longest = max(took for _, took in answers)
    statuses = sorted({status for status, _ in answers})
    report(
        capsys,
        f"PostgreSQL frozen for {FROZEN_S:.0f} s: answers {statuses} after at most {longest:.1f} "
        f"s, all done {recovered:.1f} s after it went on",
    )
    assert len(proposed) == 5
    assert longest < 8  # not the 12 s that a statement may take
    assert set(statuses) <= {201, 302, 409, 503}
    assert refunds(product) == len(rows)
    verify()
