"""The product as it runs in production, on engines of its own in a folder that is thrown away."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from approvals.local import embedded_services
from approvals.processes import WEB

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def engines(keep: Path | None = None) -> Iterator[None]:
    """PostgreSQL with fsync and Redis, migrated, with Django set up on them.

    With ``keep`` their files stay in that folder, and a later run finds its databases there.
    """
    with ExitStack() as stack:
        folder = keep or Path(tempfile.mkdtemp(prefix="assent-bench-"))
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        if keep is None:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        os.environ |= {
            "DATABASE_URL": embedded_services.start_postgres(folder / "postgres", stack),
            "REDIS_URL": embedded_services.start_redis(folder, stack),
            "DJANGO_SETTINGS_MODULE": "approvals.settings",
            "ASSENT_SECRET_KEY": "only for the bench",
            "ASSENT_AUDIT_KEY": "11" * 32,
            "ASSENT_ENCRYPTION_KEYS": "44" * 32,
            "ASSENT_TOOL_APPS": "bench",
            "ASSENT_LOG_LEVEL": "ERROR",
            "ASSENT_LIMITS": "off",  # a bench asks for more than any agent may
            "ASSENT_PUBLIC_URL": "http://localhost",
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        yield


@contextmanager
def process(
    *command: str, port: int | None = None, python: str = sys.executable, **environment: str
) -> Iterator[int]:
    """One process of the product, ready when its port answers; its process id."""
    child = subprocess.Popen(
        [python, *command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while port is not None and not listens(port):
            assert child.poll() is None, f"{command} ended before it listened"
            time.sleep(0.05)
        yield child.pid
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@contextmanager
def web(port: int, processes: int = 2) -> Iterator[list[int]]:
    """The processes that ``make up`` runs for pages and agents; the process ids of the servers."""
    command = (*WEB.command, "--port", str(port), "--log-level", "error")
    with ExitStack() as stack:
        pids = [stack.enter_context(process(*command)) for _ in range(processes)]
        while listeners(port) < processes:
            time.sleep(0.05)
        yield pids


def bench_agent(*scopes: str) -> str:
    """A new token of the agent ``bench`` of the tenant ``bench``, which may use every tool."""
    from django.db import connection

    from ledger.models import Agent, AgentToken, Tenant

    tenant, _ = Tenant.objects.get_or_create(
        slug="bench", defaults={"name": "Bench", "tools": ["*"]}
    )
    agent, _ = Agent.objects.get_or_create(tenant=tenant, slug="bench", defaults={"name": "Bench"})
    _, token = AgentToken.issue(agent, scopes=list(scopes))
    connection.close()
    return token


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listeners(port: int) -> int:
    """The number of sockets that listen there; processes that share a port have one each."""
    local, listening = f":{port:04X}", "0A"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(local) and row[3] == listening for row in rows)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def bench_person(username: str, role: str, tenant: str = "bench") -> tuple[Any, str]:
    """The account of a person with this role, sealed as every account is, and its session."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client

    from approvals.people import accounts
    from ledger.models import Tenant
    from ledger.principals import Surface, system

    by = {"by": system("bench", "Bench"), "via": Surface.COMMAND}
    Tenant.objects.get_or_create(slug=tenant, defaults={"name": "Bench", "tools": ["*"]})
    user = User.objects.filter(username=username).first() or accounts.invite(username, **by)
    assert accounts.give_role(user, tenant, role, **by)
    client = Client()
    client.force_login(user)
    connection.close()
    return user, client.cookies["assent_session"].value
