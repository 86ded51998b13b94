"""A deployment stops processes with SIGTERM: each ends soon, also while it has nothing to do."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx
import pytest
from django.conf import settings
from redis import ConnectionError, Redis
from rq import Worker

from approvals.local import embedded_services
from ledger.api.waiting import waiters
from tests import faults
from tests.processes import Product, until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SOON_S = 10.0


def terminate(product: Product, name: str) -> int:
    """The exit status of the process, which must end by itself."""
    process = product.processes[name]
    os.kill(process.pid, signal.SIGTERM)
    try:
        return process.wait(SOON_S)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{name} goes on: {product.log(name)}") from None


def is_listed(pid: int, url: str = "") -> bool:
    with suppress(ConnectionError), Redis.from_url(url or settings.REDIS_URL) as redis:
        return any(worker.pid == pid for worker in Worker.all(connection=redis))
    return False  # it has just been started


def somebody_waits(url: str) -> bool:
    with Redis.from_url(url) as redis:
        return bool(redis.info("clients")["blocked_clients"])


@pytest.mark.parametrize("name", ["commits", "courier", "worker"])
def test_a_process_that_waits_for_work_ends(product, name):
    product.start(name)
    until(lambda: is_listed(product.processes[name].pid), 90, f"{name} waits for work")

    assert terminate(product, name) == 0


def test_a_sweeper_ends(product):
    product.start("sweeper")
    until(lambda: "Sweeping" in product.log("sweeper"), 90, "it sweeps")

    assert terminate(product, "sweeper") == 0


def test_a_web_process_ends_although_somebody_waits(product, people):
    product.start("web")
    _, agent = people(product)
    token = agent.propose()
    path = f"{product.environment['ASSENT_LIVE_URL']}/api/v1/transactions/{token['transaction_id']}"
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(agent.http.get, path, params={"wait": 50})
        until(lambda: sum(waiters.in_all_processes().values()) == 1, 90, "the long-poll waits")

        assert terminate(product, "web") == 0
        assert isinstance(poll.exception(), httpx.TransportError)


@pytest.mark.parametrize("name", ["commits", "courier", "worker"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_process_ends_although_redis_is_away(product, name, is_frozen, tmp_path):
    """Gone, so that every call fails at once, or standing still, so that each call waits."""
    with ExitStack() as redis:
        url = embedded_services.start_redis(tmp_path, redis)
        product.start(name, REDIS_URL=url)
        until(lambda: is_listed(product.processes[name].pid, url), 90, f"{name} waits for work")
        if is_frozen:
            server = int((tmp_path / "redis.pid").read_text().partition(":")[0])
            redis.enter_context(faults.frozen(server))
        else:
            redis.close()
            until(lambda: "connect to Redis" in product.log(name), 90, lambda: product.log(name))

        assert terminate(product, name) == 0
