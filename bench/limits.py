"""Cost of floods, half requests and storms of sign-ins to everybody else."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from approvals.processes import WEB
from bench.engines import bench_person, free_port, process

SAMPLES = 40
ATTACKER = "127.0.0.2"  # an address of its own
HALF = b"POST /api/v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{"


def measure() -> dict[str, float]:
    """Milliseconds of a page and of a prepare, p50 and largest, alone and beside each attack."""
    cookie, tokens = _accounts()
    port = free_port()
    command = (*WEB.command, "--port", str(port), "--log-level", "error")
    with process(*command, port=port, ASSENT_LIMITS=""):
        client = _Client(port, cookie, tokens[0])
        attacks: dict[str, Callable[[], object]] = {
            "alone": ExitStack,
            "300 half requests": lambda: _half_requests(port, 300),
            "flood with a token": lambda: _flood(port, tokens[1]),
            "flood without a token": lambda: _flood(port, ""),
            "storm of sign-ins": lambda: _sign_ins(port),
        }
        client.sample()  # warms up
        figures = {}
        for name, attack in attacks.items():
            with attack():  # type: ignore[attr-defined]
                figures |= {f"{name}: {key}": value for key, value in client.sample().items()}
        return figures


def _accounts() -> tuple[str, list[str]]:

    from ledger.models import Agent, AgentToken, Tenant

    tenant, _ = Tenant.objects.get_or_create(
        slug="bench", defaults={"name": "Bench", "tools": ["*"]}
    )
    agents = [Agent.objects.get_or_create(tenant=tenant, slug=slug)[0] for slug in ("calm", "busy")]
    tokens = [AgentToken.issue(agent, scopes=["propose"])[1] for agent in agents]
    _user, cookie = bench_person("watcher", "viewer")
    return cookie, tokens


class _Client:
    """A manager and an agent who behave."""

    def __init__(self, port: int, cookie: str, token: str) -> None:
        self._port, self._cookie, self._token = port, cookie, token

    def sample(self) -> dict[str, float]:
        pages = [self._timed("GET", "/", {"Cookie": f"assent_session={self._cookie}"})]
        prepares = []
        for _ in range(SAMPLES):
            pages.append(self._timed("GET", "/", {"Cookie": f"assent_session={self._cookie}"}))
            body = {"tool": "measured", "arguments": {"name": uuid.uuid4().hex}}
            headers = {
                "Authorization": f"Bearer {self._token}",
                "Idempotency-Key": uuid.uuid4().hex,
                "Content-Type": "application/json",
            }
            prepares.append(self._timed("POST", "/api/v1/transactions", headers, json.dumps(body)))
        return {
            "page p50 ms": statistics.median(pages),
            "page max ms": max(pages),
            "prepare p50 ms": statistics.median(prepares),
            "prepare max ms": max(prepares),
        }

    def _timed(self, method: str, path: str, headers: dict[str, str], body: str = "") -> float:
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status in {200, 201}, (path, answer.status)
        connection.close()
        return (time.perf_counter() - began) * 1000


@contextmanager
def _half_requests(port: int, number: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(number):
            half = stack.enter_context(
                socket.create_connection(("127.0.0.1", port), source_address=(ATTACKER, 0))
            )
            half.sendall(HALF)
        yield


def _flood(port: int, token: str) -> object:
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(connection: http.client.HTTPConnection) -> None:
        connection.request("GET", "/api/v1/tools", headers=headers)
        connection.getresponse().read()

    return _threads(port, 8, ask)


def _sign_ins(port: int) -> object:
    def ask(connection: http.client.HTTPConnection) -> None:
        name, secret = uuid.uuid4().hex, "a" * 32
        body = f"username={name}&password=wrong&csrfmiddlewaretoken={secret}"
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Cookie": f"csrftoken={secret}",
        }
        connection.request("POST", "/sign-in/", body, headers)
        connection.getresponse().read()

    return _threads(port, 16, ask)


@contextmanager
def _threads(
    port: int, number: int, ask: Callable[[http.client.HTTPConnection], None]
) -> Iterator[None]:
    is_over = threading.Event()

    def run() -> None:
        connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=60, source_address=(ATTACKER, 0)
        )
        while not is_over.is_set():
            try:
                ask(connection)
            except (http.client.HTTPException, OSError):
                connection.close()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(60)
