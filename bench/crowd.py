"""Thousands of clients that wait on one server, all from one thread.

A waiter costs this client a socket and a few hundred bytes, so the server gets the machine.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import select
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

PER_ADDRESS = 10_000  # connections from one address of this machine, which has 28,000 ports
AT_ONCE = 250  # that connect at the same time; the server accepts them one after the other
FRAME = 65536


@dataclass(eq=False, slots=True)
class Waiter:
    """One connection. ``request`` is sent again after each answer that ends."""

    request: bytes
    is_repeated: bool
    wire: socket.socket = field(init=False)
    heard_at: float = 0.0  # when it last heard something, by ``time.perf_counter``
    last: bytes = b""


def poll(path: str, token: str) -> bytes:
    """A long-poll by REST."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


def claim(token: str, wait_s: float) -> bytes:
    """A worker that waits for a task."""
    body = json.dumps({"wait_s": wait_s}).encode()
    return (
        f"POST /api/v1/work/claim HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def subscription(task_id: str, token: str) -> bytes:
    """An A2A stream over JSON-RPC."""
    params = {"id": task_id}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": params}
    body = json.dumps(call).encode()
    return (
        f"POST /a2a/v1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"A2A-Version: 1.0\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def desk(cookie: str, origin: str) -> bytes:
    """The WebSocket of an open desk."""
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET /ws/desk HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Origin: {origin}\r\nCookie: assent_session={cookie}\r\n\r\n"
    ).encode()


class Crowd:
    """The waiters of one client."""

    def __init__(self, port: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._port = port
        self._poll = select.epoll()
        self.waiters: dict[int, Waiter] = {}
        self.closed = 0

    def add(self, requests: Iterable[bytes], *, answers: bool, is_repeated: bool = False) -> None:
        """Open a connection for each request. With ``answers`` wait until each heard something."""
        batch: list[Waiter] = []
        for request in requests:
            batch.append(self._open(Waiter(request, is_repeated)))
            if len(batch) == AT_ONCE:
                self._settle(batch, answers)
                batch = []
        self._settle(batch, answers)

    def _open(self, waiter: Waiter) -> Waiter:
        source = f"127.0.0.{2 + len(self.waiters) // PER_ADDRESS}"
        waiter.wire = socket.create_connection(("127.0.0.1", self._port), 60, (source, 0))
        waiter.wire.sendall(waiter.request)
        waiter.wire.setblocking(False)
        self._poll.register(waiter.wire, select.EPOLLIN)
        self.waiters[waiter.wire.fileno()] = waiter
        return waiter

    def _settle(self, batch: list[Waiter], answers: bool) -> None:
        if answers:
            self.until(lambda: all(waiter.heard_at for waiter in batch), 120)

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Listen until the condition holds; false if it does not within ``seconds``."""
        end = time.perf_counter() + seconds
        while not condition():
            if time.perf_counter() > end:
                return False
            self.listen(0.05)
        return True

    def listen(self, seconds: float) -> None:
        """Read what has come, for at most so long if nothing has."""
        ready = self._poll.poll(seconds)
        now = time.perf_counter()
        for number, _ in ready:
            waiter = self.waiters[number]
            try:
                waiter.last = waiter.wire.recv(FRAME)
            except BlockingIOError:
                continue
            except ConnectionError:
                waiter.last = b""
            waiter.heard_at = now
            if not waiter.last:
                self._forget(waiter)
            elif waiter.is_repeated:
                waiter.wire.sendall(waiter.request)

    def _forget(self, waiter: Waiter) -> None:
        self.closed += 1
        self._poll.unregister(waiter.wire)
        del self.waiters[waiter.wire.fileno()]
        waiter.wire.close()

    def leave(self) -> None:
        for waiter in list(self.waiters.values()):
            self._forget(waiter)
        self.closed = 0
