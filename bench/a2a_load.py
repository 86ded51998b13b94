"""Load of A2A clients: JSON-RPC on persistent connections, all from one thread.

    python -m bench.a2a_load http://127.0.0.1:8000/a2a/v1 TOKEN [SKILL]

Every connection sends its next request as soon as it has the response. A request costs the client
a few tens of microseconds (``ceiling`` measures it), so the server gets most of the machine.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECONDS = 5.0
RESPONSE_TIMEOUT = 30.0  # seconds without a response before requests count as errors
INPUT = {"customer": "Ana Ruiz", "order": 1042, "lines": ["A lamp arrived broken."] * 20}

Figures = dict[str, float]


def measure(
    name: str, url: str, token: str, connections: int, task_ids: list[str], skill: str = "park"
) -> Figures:
    """Requests per second, p50 and p99 in milliseconds, and errors of both methods of one server.

    ``GetTask`` requests the ``task_ids`` at random.
    """
    figures: Figures = {}
    for method, requests in (("send", sends(skill)), ("get", gets(task_ids))):
        load = Load(url, token, connections)
        load.run(requests, seconds=1.0)  # warm up
        load.run(requests, seconds=SECONDS)
        figures |= {f"{name}: {method}{unit}": value for unit, value in load.figures().items()}
    return figures


def park(url: str, token: str, number: int, skill: str = "park") -> list[str]:
    """Submit ``number`` tasks and return their ids. Raises ``AssertionError`` if one is refused."""
    load = Load(url, token, connections=8, keeps=True)
    load.run(islice(sends(skill), number))
    assert load.errors == 0, f"{load.errors} of {number} were not taken"
    return [json.loads(answer)["result"]["task"]["id"] for answer in load.kept]


def resident(pid: int) -> float:
    """Resident memory, in MiB, of a process and its descendants."""
    parents = dict(_parents())
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(_resident_kib(member) for member in family) / 1024


def _parents() -> Iterator[tuple[int, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The process name, before the bracket, may contain spaces.
            yield int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue


def _resident_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


# --- requests ---------------------------------------------------------------------------


def sends(skill: str) -> Iterator[bytes]:
    """``SendMessage`` with a data part of about 600 bytes, never the same message twice."""
    mark = "0" * 32
    part = {"data": {"skill": skill, "input": INPUT}}
    message = {"messageId": mark, "role": "ROLE_USER", "parts": [part]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    before, between, after = _rpc(mark, "SendMessage", params).split(mark.encode())
    while True:
        fresh = uuid.uuid4().hex.encode()
        yield b"".join((before, fresh, between, fresh, after))


def gets(task_ids: list[str]) -> Iterator[bytes]:
    bodies = [_rpc("get", "GetTask", {"id": task_id}) for task_id in task_ids]
    while True:
        yield random.choice(bodies)


def _rpc(number: str, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


# --- the connections -------------------------------------------------------------------------


class Connection:
    """One connection, with one request at a time; responses need a Content-Length."""

    def __init__(self, url: str, token: str) -> None:
        where = urlsplit(url)
        self.wire = socket.create_connection((where.hostname, where.port))
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = (
            f"POST {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\n"
            f"Content-Type: application/json\r\nA2A-Version: 1.0\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: %d\r\n\r\n"
        ).encode()
        self.is_waiting = False

    def ask(self, body: bytes) -> None:
        self.began = time.perf_counter()
        self.received, self.missing = b"", -1
        self.is_waiting = True
        self.wire.sendall(self.head % len(body) + body)

    def read(self) -> bytes | None:
        """The whole response once it is complete, else ``None``. Raises ``ConnectionError``."""
        chunk = self.wire.recv(262144)
        if not chunk:
            raise ConnectionError("closed by the server")
        self.received += chunk
        if self.missing < 0:
            head, end, _ = self.received.partition(b"\r\n\r\n")
            if not end:
                return None
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self.missing = len(head) + len(end) + int(length)
        if len(self.received) < self.missing:
            return None
        self.is_waiting = False
        return self.received


class Load:
    """Several connections, and the measurements of the last ``run``."""

    def __init__(self, url: str, token: str, connections: int, keeps: bool = False) -> None:
        self.url, self.token, self.keeps = url, token, keeps
        self.poll = select.epoll()
        self.open: dict[int, Connection] = {}
        for _ in range(connections):
            self._connect()

    def run(self, requests: Iterator[bytes], seconds: float = float("inf")) -> None:
        """Send until the time is over or the requests are used up; then wait for the responses."""
        self.spans: list[float] = []
        self.kept: list[bytes] = []
        self.errors, self.trouble = 0, b""
        began = last_response = time.perf_counter()
        until = began + seconds
        for connection in list(self.open.values()):
            self._next(connection, requests)
        while any(connection.is_waiting for connection in self.open.values()):
            ready = self.poll.poll(1.0)
            now = time.perf_counter()
            if not ready and now - last_response > RESPONSE_TIMEOUT:
                self._give_up()
                break
            last_response = now if ready else last_response
            for number, _ in ready:
                connection = self.open[number]
                answered = self._receive(connection)
                if answered and now < until:
                    self._next(connection, requests)
        self.took = time.perf_counter() - began

    def figures(self) -> Figures:
        """The figures of the last run. Errors do not count as served requests."""
        spans = sorted(self.spans) or [float("nan")]
        return {
            "/s": len(self.spans) / self.took,
            " p50 ms": spans[len(spans) // 2] * 1000,
            " p99 ms": spans[int(len(spans) * 0.99)] * 1000,
            " errors": self.errors,
        }

    def _connect(self) -> Connection:
        connection = Connection(self.url, self.token)
        self.open[connection.wire.fileno()] = connection
        self.poll.register(connection.wire, select.EPOLLIN)
        return connection

    def _next(self, connection: Connection, requests: Iterator[bytes]) -> None:
        body = next(requests, None)
        if body is None:
            return
        try:
            connection.ask(body)
        except ConnectionError:
            self._replace(connection)

    def _receive(self, connection: Connection) -> bool:
        """Whether the connection is free for the next request. A lost connection is replaced."""
        try:
            answer = connection.read()
        except ConnectionError:
            self._replace(connection)
            return False
        if answer is None:
            return False
        if answer.startswith(b"HTTP/1.1 200") and b'"result"' in answer:
            self.spans.append(time.perf_counter() - connection.began)
            if self.keeps:
                self.kept.append(answer.partition(b"\r\n\r\n")[2])
        else:
            self.errors += 1
            self.trouble = answer
        return True

    def _replace(self, connection: Connection) -> None:
        self.errors += connection.is_waiting
        del self.open[connection.wire.fileno()]
        connection.wire.close()
        self._connect()

    def _give_up(self) -> None:
        for connection in [each for each in self.open.values() if each.is_waiting]:
            self._replace(connection)


# --- the limit of the client ------------------------------------------------------------------


def ceiling(connections: int = 32) -> float:
    """Requests per second against a server that does nothing: the most that can be measured."""
    with _trivial_server() as url:
        load = Load(url, "nobody", connections)
        load.run(sends("park"), seconds=1.0)
        load.run(sends("park"), seconds=2.0)
        return load.figures()["/s"]


@contextmanager
def _trivial_server() -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    server = get_context("fork").Process(target=_answer_all, args=(listening,), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.kill()
        server.join()
        listening.close()


def _answer_all(listening: socket.socket) -> None:
    """Send a response as long as a real one for each received chunk, which is one request."""
    body = b'{"jsonrpc":"2.0","id":1,"result":"%s"}' % b"".join(repeat(b"x", 1000))
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    poll = select.epoll()
    poll.register(listening, select.EPOLLIN)
    wires: dict[int, socket.socket] = {}
    while True:
        for number, _ in poll.poll():
            if number == listening.fileno():
                wire, _ = listening.accept()
                wires[wire.fileno()] = wire
                poll.register(wire, select.EPOLLIN)
            elif wires[number].recv(65536):
                wires[number].sendall(answer)
            else:
                wires.pop(number).close()


def main(url: str, token: str, skill: str = "park") -> None:
    print(f"ceiling of the client {ceiling():.0f}/s")
    task_ids = park(url, token, 2_000, skill)
    for connections in (8, 32):
        print(f"{connections} connections")
        for name, value in measure("server", url, token, connections, task_ids, skill).items():
            print(f"  {name:<28} {value:10.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
