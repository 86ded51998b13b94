"""A scripted MCP server on loopback, which answers as a test says: rightly, or for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUND = {
    "name": "refund",
    "description": "Refunds an invoice.",
    "inputSchema": {
        "type": "object",
        "properties": {"invoice": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["invoice"],
    },
}


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {**REFUND, "name": name, **members}


@dataclass
class Scripted:
    """``tools`` is its list, or makes it; ``answers`` is the result of each tool, or what it does:
    a function is given the handler, and writes for itself or returns the result."""

    port: int
    tools: Any = field(default_factory=lambda: [REFUND])
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def methods(self) -> list[str]:
        return [asked["method"] for asked in self.asked]

    def calls(self) -> list[dict[str, Any]]:
        return [asked["params"] for asked in self.asked if asked["method"] == "tools/call"]


class Handler(BaseHTTPRequestHandler):
    server_: Scripted

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.number = message.get("id")
        self.server_.asked.append(message)
        self.server_.headers.append(dict(self.headers))
        match message["method"]:
            case "server/discover" if "server/discover" not in self.server_.answers:
                self.result({"supportedVersions": ["2026-07-28"]})
            case "tools/list" if "tools/list" not in self.server_.answers:
                tools = self.server_.tools
                listed = tools() if callable(tools) else tools
                self.result(listed if isinstance(listed, dict) else {"tools": listed})
            case "tools/call":
                self.done(self.server_.answers.get(message["params"]["name"]))
            case method:
                self.done(self.server_.answers.get(method))

    def do_GET(self) -> None:
        """A stream that is read on; a server without an answer to that does not know it."""
        if (go_on := self.server_.answers.get("GET")) is None:
            self.body(b"", 405)
        else:
            go_on(self)

    def done(self, answer: Any) -> None:
        answer = answer(self) if callable(answer) else answer
        if answer is not None:
            self.result(answer)

    def result(self, result: dict[str, Any], number: Any = None) -> None:
        number = self.number if number is None else number
        self.body({"jsonrpc": "2.0", "id": number, "result": result})

    def error(self, code: int, message: str, status: int = 200) -> None:
        error = {"code": code, "message": message}
        self.body({"jsonrpc": "2.0", "id": self.number, "error": error}, status)

    def body(self, body: Any, status: int = 200, **headers: str) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(text)), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)

    def stream(self) -> Callable[[bytes], int]:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        return self.wfile.write

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        pass  # clients go away in the middle


@contextmanager
def scripted() -> Iterator[Scripted]:
    server = _Server(("127.0.0.1", 0), Handler)
    served = Scripted(server.server_port)
    server.RequestHandlerClass = type("Handler", (Handler,), {"server_": served})
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    served.stop = stop
    yield served
    stop()
