"""Who waits takes no thread and no database session: 300 cost a process as many as a few."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from django.test import Client

from bench import crowd
from bench.crowd import Crowd
from ledger.models import AgentToken, Scope
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.e2e.test_sessions import sessions_of_others
from tests.processes import Product, running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
EACH = 100


def threads_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return len(list(Path(f"/proc/{pid}/task").iterdir())) + sum(map(threads_of, map(int, children)))


def begin(
    crowd_of: Crowd,
    number: int,
    product: Product,
    token: str,
    path: str,
    task_id: str,
    person: Client,
) -> None:
    """So many long-polls, streams and open desks."""
    cookie = person.cookies["assent_session"].value
    crowd_of.add([crowd.subscription(task_id, token)] * number, answers=True)
    crowd_of.add([crowd.desk(cookie, product.url)] * number, answers=True)
    crowd_of.add([crowd.poll(path, token)] * number, answers=False)


@pytest.fixture
def _soft_limit_of_1024():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files_of(pid: int) -> list[tuple[int, int]]:
    """The soft and hard limits of the process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return [limits, *(each for child in children for each in open_files_of(int(child)))]


@pytest.mark.usefixtures("_soft_limit_of_1024")
def test_a_web_process_may_open_as_many_files_as_its_hard_limit_says():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with running("web") as product:
        limits = open_files_of(product.processes["web"].pid)

    assert (hard, hard) in limits


def test_three_hundred_wait_with_the_threads_and_sessions_of_a_few(
    helpdesk, a_task, as_alice, alice
):
    _, token = AgentToken.issue(helpdesk, scopes=["propose", Scope.READ_ALL])
    row, task = propose(), a_task()
    path = f"/api/v1/transactions/{row.pk}?wait=60"
    with running("web", ASSENT_LIMITS="off") as product:
        pid = product.processes["web"].pid
        few, many = Crowd(product.web_port), Crowd(product.web_port)
        begin(few, 5, product, token, path, str(task.pk), as_alice)
        few.until(lambda: False, 2)
        threads, sessions = threads_of(pid), sessions_of_others()

        begin(many, EACH, product, token, path, str(task.pk), as_alice)
        many.until(lambda: False, 2)
        polls = [each for each in many.waiters.values() if each.request.startswith(b"GET /api")]

        assert threads_of(pid) <= threads + 2
        assert sessions_of_others() <= sessions + 2
        assert not any(poll.heard_at for poll in polls)
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        assert many.until(lambda: all(poll.heard_at for poll in polls), 20)
        assert all(b" 200 " in poll.last[:20] for poll in polls)
        few.leave()
        many.leave()
