"""The faults that the other tests use do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from tests import faults
from tests.processes import until

pytestmark = pytest.mark.usefixtures("engines")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_stands_still_within_the_block_and_goes_on_after_it():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with faults.frozen(process.pid):
            until(lambda: state(process.pid) == "T", what="it is stopped")
        until(lambda: state(process.pid) != "T", what="it goes on")
        assert process.pid in faults.descendants(os.getpid())
    finally:
        process.kill()
        process.wait()


def test_what_a_network_swallowed_hangs_and_arrives_after_all():
    with faults.network(os.environ["REDIS_URL"]) as (network, url):
        client = redis.Redis.from_url(url, socket_timeout=0.2, retry=None)
        assert client.ping()

        with network.swallowing(), pytest.raises(redis.TimeoutError):
            client.incr("swallowed")
        until(lambda: client.get("swallowed") == b"1", what="it arrived")
        client.close()


def test_a_network_before_postgresql_delays_and_cuts():
    with (
        faults.network(os.environ["DATABASE_URL"]) as (network, url),
        psycopg.connect(url) as connection,
    ):
        network.delay_s = 0.05
        assert connection.execute("SELECT 1").fetchone() == (1,)
        network.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
