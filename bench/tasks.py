"""A2A tasks a second, beside the SDK's own server over PostgreSQL: same database, one run.

Ours is what ``make up`` runs for A2A: one asynchronous process. So is theirs.

Until a worker comes, Assent writes a task once. The SDK's server that parks a task writes it twice
(submitted, then waiting for input); its skill ``enter`` writes it once. Both are measured, and the
ratio that is promised is the one of equal work.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from bench import a2a_load
from bench.engines import ROOT, bench_agent, free_port, process, web
from bench.http_load import Figures
from bench.usage import cpu_seconds, resident

PARKED = 10_000
KNOWN = 2_000
# More than Assent keeps rendered (a2a.protocol.render_cache.MOST_TASKS), several times over.
MANY_KNOWN = 20_000
RIVAL_HOME = ROOT / ".assent" / "a2a-rival"
RIVAL_TOKEN = "only-for-the-bench"
PATH = "/a2a/v1"

# The address of a server, its token, and the id of its process.
Server = tuple[str, str, int]
Serving = Callable[[], AbstractContextManager[Server]]


def measure(connections: int) -> Figures:
    """Requests per second and p50/p99 in milliseconds, ours and theirs, and their ratio."""
    figures: Figures = {}
    for name, serving, skill in SERVERS:
        with serving() as (url, token, pid):
            ids = a2a_load.park(url, token, KNOWN, skill)
            cpu = partial(cpu_seconds, pid)
            figures |= a2a_load.measure(name, url, token, connections, ids, skill, cpu)
    figures["ratio of send"] = figures["ours: send/s"] / figures["sdk once: send/s"]
    figures["ratio of send, theirs twice"] = figures["ours: send/s"] / figures["sdk: send/s"]
    figures["ratio of get"] = figures["ours: get/s"] / figures["sdk: get/s"]
    return figures


def many_known(connections: int = 32) -> Figures:
    """Our ``GetTask`` over far more tasks than the cache of rendered tasks holds."""
    with ours() as (url, token, _pid):
        ids = a2a_load.park(url, token, MANY_KNOWN)
        figures = a2a_load.measure("ours", url, token, connections, ids)
    return {name: value for name, value in figures.items() if "get" in name}


def parked_memory() -> Figures:
    """Resident MiB of each server before and after it has 10,000 parked tasks."""
    figures: Figures = {}
    for name, serving in (("sdk", rival), ("ours", ours)):
        with serving() as (url, token, pid):
            a2a_load.park(url, token, 200)
            figures[f"{name}: before, MiB"] = resident(pid)
            a2a_load.park(url, token, PARKED)
            figures[f"{name}: after, MiB"] = resident(pid)
    return figures


# --- the two servers -------------------------------------------------------------------------


@contextmanager
def ours() -> Iterator[Server]:
    token, port = _prepare(), free_port()
    with web(port, processes=1) as pids:
        yield f"http://127.0.0.1:{port}{PATH}", token, pids[0]


@contextmanager
def rival(workers: int = 1, **settings: str) -> Iterator[Server]:
    """The SDK's server; further settings as bench/a2a_rival.py has them."""
    port = free_port()
    environment = {
        "RIVAL_PORT": str(port),
        "RIVAL_DATABASE": _for_asyncpg(),
        "RIVAL_TOKEN": RIVAL_TOKEN,
        "RIVAL_WORKERS": str(workers),
        "PYTHONPATH": "",  # the name a2a is the SDK's alone there
    }
    python, script = _rival_python(), RIVAL_HOME / "server.py"
    shutil.copyfile(ROOT / "bench/a2a_rival.py", script)
    with process(str(script), port=port, python=str(python), **environment, **settings) as pid:
        yield f"http://127.0.0.1:{port}{PATH}", RIVAL_TOKEN, pid


def _rival_python() -> Path:
    """The Python of its own environment, which is rebuilt when bench/a2a_rival.txt changes."""
    python, installed = RIVAL_HOME / "bin" / "python", RIVAL_HOME / "installed.txt"
    wanted = ROOT / "bench/a2a_rival.txt"
    if not installed.exists() or installed.read_text() != wanted.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(RIVAL_HOME)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        shutil.copyfile(wanted, installed)
    return python


def _for_asyncpg() -> str:
    from django.db import connection

    info = connection.get_connection_params()
    where = f"{info.get('user', 'postgres')}@/{info['dbname']}?host={info['host']}"
    return f"postgresql+asyncpg://{where}"


def _prepare() -> str:
    from django.db import connection

    from a2a.models import Skill
    from ledger.models import Agent

    token = bench_agent("submit")
    agent = Agent.objects.get(slug="bench")
    Skill.objects.get_or_create(agent=agent, slug="park", defaults={"name": "Park"})
    connection.close()
    return token


# Name, context manager and skill of each server that is measured.
SERVERS: list[tuple[str, Serving, str]] = [
    ("sdk", rival, "park"),
    ("sdk once", rival, "enter"),
    ("ours", ours, "park"),
]
