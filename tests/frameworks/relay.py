"""A network between a program and Assent that loses answers when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx


class Relay(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = target
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.loses_proposals = False
        self.somebody_waits = threading.Event()


class _Passing(BaseHTTPRequestHandler):
    server: Relay

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        if "wait=" in self.path:
            self.server.somebody_waits.set()
        path = f"{self.server.target}{self.path}"
        answer = httpx.request(self.command, path, content=body, headers=headers, timeout=90)
        if self.command == "POST" and self.server.loses_proposals:
            threading.Event().wait()  # the program hears nothing, and is killed
        # Its links lead through here too.
        content = answer.content.replace(self.server.target.encode(), self.server.url.encode())
        self.send_response(answer.status_code)
        for name in ("Content-Type", "ETag", "Retry-After"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = pass_on

    def log_message(self, *said: Any) -> None:
        """Nothing: a test says what went wrong."""


@contextmanager
def between(target: str) -> Iterator[Relay]:
    with Relay(target) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield relay
        relay.shutdown()
