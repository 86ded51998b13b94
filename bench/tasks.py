"""A2A tasks a second, beside the SDK's own server over its PostgreSQL store, in one run.

Ours is what ``make up`` runs for A2A: one asynchronous process. So is theirs.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.engines import ROOT, free_port, listens, process
from bench.prepare import _load

PARKED = 10_000
KNOWN = 2_000
RIVAL_HOME = ROOT / ".assent" / "a2a-rival"
PATH = "/a2a/v1"


def measure(connections: int) -> dict[str, float]:
    """Requests per second and p50/p99 in milliseconds, ours and theirs, and their ratio."""
    token = _prepare()
    found: dict[str, float] = {}
    for name, serving in (("sdk", rival), ("ours", ours)):
        with serving() as (port, _pid):
            known = _park(port, token, KNOWN)
            for method, client, extra in (
                ("send", _sender, ()),
                ("get", _getter, (known,)),
            ):
                _load(connections, client, (port, token, *extra), seconds=1.0)  # warm up
                rate, p50, p99 = _load(connections, client, (port, token, *extra))
                found |= {
                    f"{name}: {method}/s": rate,
                    f"{name}: {method} p50 ms": p50,
                    f"{name}: {method} p99 ms": p99,
                }
    for method in ("send", "get"):
        found[f"ratio of {method}"] = found[f"ours: {method}/s"] / found[f"sdk: {method}/s"]
    return found


def parked_memory() -> dict[str, float]:
    """Resident MiB of each server before and after it has 10,000 parked tasks."""
    token = _prepare()
    found: dict[str, float] = {}
    for name, serving in (("sdk", rival), ("ours", ours)):
        with serving() as (port, pid):
            _park(port, token, 200)
            found[f"{name}: before, MiB"] = _resident(pid)
            _park(port, token, PARKED)
            found[f"{name}: after, MiB"] = _resident(pid)
    return found


# --- the two servers -------------------------------------------------------------------------


@contextmanager
def ours() -> Iterator[tuple[int, int]]:
    port = free_port()
    with process(
        "-m", "granian", "--interface", "asgi", "--workers", "1", "--port", str(port),
        "--log-level", "error", "approvals.asgi:application", port=port,
    ) as pid:  # fmt: skip
        yield port, pid


@contextmanager
def rival() -> Iterator[tuple[int, int]]:
    python, port = _rival_python(), free_port()
    script = RIVAL_HOME / "server.py"
    script.write_text((ROOT / "bench/a2a_rival.py").read_text())
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    child = subprocess.Popen(
        [str(python), str(script), str(port), _for_asyncpg(os.environ["DATABASE_URL"])],
        cwd=RIVAL_HOME,
        env=environment,
        start_new_session=True,
    )
    try:
        while not listens(port):
            assert child.poll() is None, "the SDK's server did not start"
        yield port, child.pid
    finally:
        child.kill()
        child.wait()


def _rival_python() -> Path:
    python = RIVAL_HOME / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(RIVAL_HOME)], check=True)
        wanted = ["-m", "pip", "install", "-q", "-r", str(ROOT / "bench/a2a_rival.txt")]
        subprocess.run([str(python), *wanted], check=True)
    return python


def _for_asyncpg(url: str) -> str:
    from django.db import connection

    del url
    info = connection.get_connection_params()
    return (
        f"postgresql+asyncpg://{info.get('user', 'postgres')}@/{info['dbname']}?host={info['host']}"
    )


def _resident(pid: int) -> float:
    """MiB of a process and its children."""
    total = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
        except OSError:
            continue
        if str(pid) in {fields["Pid"].strip(), fields["PPid"].strip()}:
            total += float(fields.get("VmRSS", "0 kB").split()[0]) / 1024
    return total


def _prepare() -> str:
    from django.db import connection

    from a2a.models import Skill
    from ledger.models import Agent, AgentToken, Tenant

    tenant, _ = Tenant.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
    agent, _ = Agent.objects.get_or_create(tenant=tenant, slug="bench", defaults={"name": "Bench"})
    Skill.objects.get_or_create(agent=agent, slug="park", defaults={"name": "Park"})
    _, token = AgentToken.issue(agent, scopes=["submit"])
    connection.close()
    return token


# --- the load --------------------------------------------------------------------------------


class Rpc:
    """A keep-alive connection that says and reads just what is needed."""

    def __init__(self, port: int, token: str) -> None:
        self.wire = socket.create_connection(("127.0.0.1", port))
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = (
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"A2A-Version: 1.0\r\nAuthorization: Bearer {token}\r\n"
        )

    def call(self, method: str, params: Any) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self.wire.sendall(f"{self.head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.wire.recv(65536)
        headers, _, rest = answer.partition(b"\r\n\r\n")
        length = int(headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(rest) < length:
            rest += self.wire.recv(65536)
        assert b'"result"' in rest, rest
        return rest


INPUT = {"customer": "Ana Ruiz", "order": 1042, "lines": ["A lamp arrived broken."] * 16}


def _sender(port: int, token: str) -> Callable[[], None]:
    rpc = Rpc(port, token)

    def once() -> None:
        parts = [{"data": {"skill": "park", "input": INPUT}}]
        message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": parts}
        rpc.call("SendMessage", {"message": message, "configuration": {"returnImmediately": True}})

    return once


def _getter(port: int, token: str, known: list[str]) -> Callable[[], None]:
    rpc = Rpc(port, token)

    def once() -> None:
        rpc.call("GetTask", {"id": random.choice(known)})

    return once


def _park(port: int, token: str, number: int) -> list[str]:
    """Ids of so many new tasks, sent over four connections."""
    found: list[str] = []

    def send() -> None:
        rpc = Rpc(port, token)
        for _ in range(number // 4):
            parts = [{"data": {"skill": "park", "input": INPUT}}]
            message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": parts}
            config = {"returnImmediately": True}
            answer = rpc.call("SendMessage", {"message": message, "configuration": config})
            found.append(json.loads(answer)["result"]["task"]["id"])

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
