"""Serves an agent card over real HTTP: any JSON that a test writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

EXTENSION = "urn:assent:a2a:skills:1"


def card(**more: Any) -> dict[str, Any]:
    skill = {"id": "echo", "name": "Echo", "description": "says it", "tags": ["a"]}
    face = {"url": "https://r.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {
        "name": "Fast",
        "description": "d",
        "version": "1",
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "supportedInterfaces": [face],
        "skills": [skill],
        **more,
    }


@dataclass
class CardServer:
    url: str = ""
    card: Any = field(default_factory=card)  # bytes are sent as they are


@pytest.fixture
def card_server(settings: Any) -> Iterator[CardServer]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    served = CardServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (
                served.card if isinstance(served.card, bytes) else json.dumps(served.card).encode()
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield served
    server.shutdown()
    server.server_close()
