"""Sends requests that were built before, on persistent connections, from a process of its own."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One POST as the bytes that go over the wire; ``name`` says what it is about."""

    name: str
    wire: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """``began`` and ``ended`` are seconds since the epoch, as the effects have them."""

    name: str
    began: float
    ended: float
    body: bytes
    is_refused: bool = False

    @property
    def content(self) -> Any:
        return json.loads(self.body)


def post(name: str, path: str, body: object, headers: Mapping[str, str] | None = None) -> Request:
    text = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
        *(f"{key}: {value}" for key, value in (headers or {}).items()),
    ]
    return Request(name, "\r\n".join([*lines, "", ""]).encode() + text)


def send(
    port: int, connections: int, requests: Sequence[Request], seconds: float = TIMEOUT_S
) -> list[Answer]:
    """Send the requests, as many as are answered in so many seconds; their answers.

    Every connection sends its next request as soon as it has the answer.
    """
    context = get_context("spawn")
    results = context.Queue()
    arguments = (port, connections, requests, seconds, results)
    process = context.Process(target=_send, args=arguments)
    process.start()
    answers: list[Answer] | str = results.get()
    process.join()
    assert not isinstance(answers, str), answers
    return answers


def _send(
    port: int, connections: int, requests: Sequence[Request], seconds: float, results: Any
) -> None:
    answers: list[Answer] = []
    failures: list[str] = []
    source, lock = iter(requests), threading.Lock()
    ready = threading.Barrier(connections)

    def run() -> None:
        try:
            wire = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.wait()
            answers.extend(_exchange(wire, source, lock, time.time() + seconds))
        except Exception as failure:
            failures.append(repr(failure))
            ready.abort()

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(failures[0] if failures else answers)


def _exchange(
    wire: socket.socket, source: Iterator[Request], lock: threading.Lock, until: float
) -> Iterator[Answer]:
    while time.time() < until:
        with lock:
            request = next(source, None)
        if request is None:
            return
        began = time.time()
        wire.sendall(request.wire)
        status, body = _read(wire)
        is_refused = not status.split(b" ")[1].startswith(b"2")
        yield Answer(request.name, began, time.time(), body, is_refused)


def _read(wire: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        received += _some(wire)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += _some(wire)
    return head.split(b"\r\n")[0], body


def _some(wire: socket.socket) -> bytes:
    more = wire.recv(65536)
    assert more, "the server closed the connection"
    return more
