"""Servers the conformance kit runs beside itself: the owner's service, and a place for its key."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.foundation.crypto import signing_keys

UP_WITHIN_S = 30.0


class NotStarted(Exception):
    """The service ended, or does not listen in time."""


class StartedService:
    """A service that the kit starts and kills by the owner's command."""

    def __init__(self, command: str, address: str) -> None:
        self._address = address
        self._command = shlex.split(command)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once it accepts connections. Raises ``NotStarted``."""
        try:
            process = subprocess.Popen(self._command, start_new_session=True)
        except OSError as failure:
            raise NotStarted(f"{self._command[0]} cannot be run: {failure}") from failure
        self._process = process
        deadline = time.monotonic() + UP_WITHIN_S
        while not listens(self._address):
            if process.poll() is not None:
                raise NotStarted(f"The service ended with {process.returncode}.")
            if time.monotonic() > deadline:
                self.kill()
                raise NotStarted(f"The service does not listen after {UP_WITHIN_S:.0f} s.")
            time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut would: with all of its processes, and no handler runs."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def listens(address: str) -> bool:
    """True if something accepts connections there."""
    parts = urlsplit(address)
    where = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    with suppress(OSError), socket.create_connection(where, timeout=5):
        return True
    return False


@contextmanager
def published(key: Ed25519PrivateKey, port: int) -> Iterator[str]:
    """Serve the public half as Assent does; gives the address that stands for Assent's."""
    body = json.dumps({"keys": [signing_keys.jwk(key)]}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/.well-known/jwks.json" else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
