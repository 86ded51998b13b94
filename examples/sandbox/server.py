"""The HTTP server of the sandbox: strict parsing, planned faults, JSON responses."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from examples.sandbox import airline, cloud, controls, pages, payments  # noqa: F401  (routes)
from examples.sandbox.faults import Fault, Mode
from examples.sandbox.store import Store
from examples.sandbox.wire import (
    KEY_MAX,
    ROUTES,
    Answer,
    Ask,
    Refused,
    Route,
    checked_fields,
)

BODY_MAX = 64 * 1024  # bytes
DRAINED_AT_MOST = 4 * 1024 * 1024  # bytes of a refused body that are read
# Faults never apply to these: tests and people need them to see what happened.
WITHOUT_FAULTS = {"/", "/effects", "/faults", "/reset"}


class HungUp(Exception):
    """The connection has to be closed without a response."""


class Sandbox(ThreadingHTTPServer):
    """The server. It listens as soon as it is created; ``serve_forever`` responds."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, port: int = 0, data: str = ":memory:", host: str = "127.0.0.1", public_url: str = ""
    ) -> None:
        self.store = Store(data)
        super().__init__((host, port), RequestHandler)
        self.url = f"http://{host}:{self.server_port}"
        self.public_url = (public_url or self.url).rstrip("/")

    def perform(self, route: Route, ask: Ask) -> Answer:
        with self.store.work():
            return route.handler(self.store, ask)

    def server_close(self) -> None:
        super().server_close()
        self.store.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that close the connection early are expected, not errors."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def in_background(self) -> Sandbox:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class RequestHandler(BaseHTTPRequestHandler):
    """Serves the requests of one connection."""

    server: Sandbox
    protocol_version = "HTTP/1.1"
    server_version = "Sandbox"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body are sent together
    timeout = 60  # seconds between two requests

    def do_GET(self) -> None:
        try:
            answer = self._answer()
        except HungUp:
            self._hang_up()
            return
        except Refused as refusal:
            error = {"code": refusal.code, "message": str(refusal)}
            answer = Answer({"error": error}, refusal.status)
        self._send(answer)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

    def _answer(self) -> Answer:
        body = self._body()
        url = urlsplit(self.path)
        fault = (
            None
            if url.path in WITHOUT_FAULTS
            else self.server.store.faults.take(self.command, url.path)
        )
        self._before_work(fault)
        route, parts = _route_for(self.command, url.path)
        answer = self.server.perform(route, self._ask(route, parts, url.query, body))
        self._after_work(fault)
        return answer

    def _before_work(self, fault: Fault | None) -> None:
        match fault and fault.mode:
            case Mode.DELAY_BEFORE_WORK if fault:
                generation = self.server.store.generation
                time.sleep(fault.seconds)
                if generation != self.server.store.generation:
                    raise HungUp  # the sandbox was reset in the meantime
            case Mode.DROP_BEFORE_WORK:
                raise HungUp
            case Mode.ERROR_500_BEFORE:
                raise Refused(500, "internal_error", "Something went wrong.")

    def _after_work(self, fault: Fault | None) -> None:
        match fault and fault.mode:
            case Mode.DELAY if fault:
                time.sleep(fault.seconds)
            case Mode.DROP_AFTER_WORK:
                raise HungUp
            case Mode.ERROR_500_AFTER:
                raise Refused(500, "internal_error", "Something went wrong.")

    def _ask(self, route: Route, parts: dict[str, str], query: str, body: bytes) -> Ask:
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        if unknown := sorted(set(parameters) - route.query):
            raise Refused(400, "unknown_query", f"Unknown in the query: {', '.join(unknown)}.")
        key = self.headers.get("Idempotency-Key", "").strip()
        if len(key) >= 2 and key[0] == key[-1] == '"':
            key = key[1:-1]
        if route.needs_key and not 0 < len(key) <= KEY_MAX:
            raise Refused(400, "idempotency_key_missing", "Send an Idempotency-Key header.")
        return Ask(parts, parameters, self._fields(route, body), key, self.server.public_url)

    def _fields(self, route: Route, body: bytes) -> dict[str, Any]:
        takes_fields = route.required or route.optional
        if not body and not takes_fields:
            return {}
        if route.method in {"GET", "DELETE"}:
            raise Refused(400, "unexpected_body", "This request has no body.")
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, "not_json", "Send the body as application/json.")
        try:
            content = json.loads(body)
        except ValueError:
            raise Refused(400, "not_json", "The body is not JSON.") from None
        return checked_fields(route, content)

    def _body(self) -> bytes:
        """Read the whole body first, so that the connection can be used again."""
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise Refused(411, "length_required", "Send a Content-Length.")
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > BODY_MAX:
            self.close_connection = True
            # Closing a connection with unread data resets it, and the response would be lost.
            self.rfile.read(min(int(length), DRAINED_AT_MOST) if length.isdecimal() else 0)
            raise Refused(413, "too_large", f"The body may have at most {BODY_MAX} bytes.")
        return self.rfile.read(int(length))

    def _send(self, answer: Answer) -> None:
        is_page = isinstance(answer.body, str)
        body = (answer.body if is_page else json.dumps(answer.body)).encode()
        self.send_response(answer.status)
        self.send_header(
            "Content-Type", "text/html; charset=utf-8" if is_page else "application/json"
        )
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _route_for(method: str, path: str) -> tuple[Route, dict[str, str]]:
    allowed = []
    for candidate in ROUTES:
        if match := candidate.pattern.fullmatch(path):
            if candidate.method == method:
                return candidate, {name: unquote(part) for name, part in match.groupdict().items()}
            allowed.append(candidate.method)
    if allowed:
        raise Refused(405, "method_not_allowed", f"Only {', '.join(sorted(set(allowed)))} here.")
    raise Refused(404, "not_found", f"There is nothing at {path}.")
