"""Load on an HTTP server: persistent connections, all from one thread.

Every connection sends its next request as soon as it has the response. A request costs the client
a few tens of microseconds (``ceiling`` measures it), so the server gets most of the machine.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from multiprocessing import get_context
from urllib.parse import urlsplit

SECONDS = 5.0
RESPONSE_TIMEOUT = 30.0  # seconds without a response before requests count as errors

# What the responses begin with, and contain.
OK = (b"HTTP/1.1 200", b"")
CREATED = (b"HTTP/1.1 201", b"")

Figures = dict[str, float]


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of one request; ``idempotency_key="x"`` is the header Idempotency-Key."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection:
    """One connection, with one request at a time; responses need a Content-Length, or none."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self.wire = socket.create_connection((where.hostname, where.port))
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_waiting = False

    def ask(self, request: bytes) -> None:
        self.began = time.perf_counter()
        self.received, self.missing = b"", -1
        self.is_waiting = True
        self.wire.sendall(request)

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
            self.missing = len(head) + len(end) + int(length or 0)
        if len(self.received) < self.missing:
            return None
        self.is_waiting = False
        return self.received


class Load:
    """Several connections, and the measurements of the last ``run``."""

    def __init__(
        self, url: str, connections: int, *, expects: tuple[bytes, bytes] = OK, keeps: bool = False
    ) -> None:
        """``expects``: what a response begins with and contains, or else it counts as an error.

        With ``keeps`` the bodies of the responses are in ``kept``.
        """
        self.url, self.expects, self.keeps = url, expects, keeps
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
        """The figures of the last run. Raises ``AssertionError`` if anything was answered wrong."""
        assert self.errors == 0, f"{self.errors} errors, as {self.trouble[-400:]!r}"
        spans = sorted(self.spans) or [float("nan")]
        return {
            "/s": len(self.spans) / self.took,
            " p50 ms": spans[len(spans) // 2] * 1000,
            " p99 ms": spans[int(len(spans) * 0.99)] * 1000,
        }

    def _connect(self) -> Connection:
        connection = Connection(self.url)
        self.open[connection.wire.fileno()] = connection
        self.poll.register(connection.wire, select.EPOLLIN)
        return connection

    def _next(self, connection: Connection, requests: Iterator[bytes]) -> None:
        request = next(requests, None)
        if request is None:
            return
        try:
            connection.ask(request)
        except ConnectionError:
            self._replace(connection)

    def _receive(self, connection: Connection) -> bool:
        """True if the connection is free for the next request. A lost connection is replaced."""
        try:
            answer = connection.read()
        except ConnectionError:
            self._replace(connection)
            return False
        if answer is None:
            return False
        begins, contains = self.expects
        if answer.startswith(begins) and contains in answer:
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
        load = Load(url, connections)
        load.run(repeat(request("POST", "/", b"x" * 600)), seconds=1.0)
        load.run(repeat(request("POST", "/", b"x" * 600)), seconds=2.0)
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
