"""A tool's service on loopback that answers as a test says, and checks what it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import http_message_signatures as hms
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings as django_settings
from standardwebhooks import Webhook

from ledger.foundation.crypto import signing_keys
from ledger.models import Tenant
from ledger.principals import Surface, system
from ledger.tools import registrations
from ledger.tools.manifests import HttpManifest

OPERATOR = system("command", "olga on the server")


@dataclass
class Asked:
    """One request that was signed by Assent."""

    method: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    nonce: str


@dataclass
class Service:
    """Answers by verb: a status, a body, and headers; or whatever a function does."""

    port: int
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    webhook: Webhook | None = None  # checks the signatures of a tool with a signing secret

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def verbs(self) -> list[str]:
        return [asked.path.split("/")[1] for asked in self.asked]


class _Keys(hms.HTTPSignatureKeyResolver):
    def resolve_public_key(self, key_id: str) -> Any:
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(django_settings.TOOL_KEYS[0]))
        assert key_id == signing_keys.key_id(key)
        return key.public_key()


class _Handler(BaseHTTPRequestHandler):
    service: Service

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        asked = json.loads(body) if body else {}
        if self.service.webhook is not None:
            self.service.webhook.verify(body, dict(self.headers))
            verb, nonce = asked["verb"], self.headers["webhook-id"]
        else:
            verb, nonce = self.path.split("/")[1], self._nonce_of(body)
        self.service.asked.append(Asked(self.command, self.path, asked, dict(self.headers), nonce))
        answer = self.service.answers.get(verb, (404, {}, {}))
        answer = answer(self) if callable(answer) else answer
        if answer is not None:
            self._send(*answer)

    def _nonce_of(self, body: bytes) -> str:
        """Of the signature, which is checked."""
        self.method, self.url = self.command, f"http://{self.headers['Host']}{self.path}"
        verifier = hms.HTTPMessageVerifier(
            signature_algorithm=hms.algorithms.ED25519, key_resolver=_Keys()
        )
        covered = ["@method", "@target-uri"]
        covered += ["content-digest", "idempotency-key"] if self.command == "POST" else []
        (signed,) = verifier.verify(
            self, expect_tag="assent-tool", require_components=covered, body=body or None
        )
        return str(signed.nonce)

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def service(settings: Any) -> Iterator[Service]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.RequestHandlerClass = type("Handler", (_Handler,), {})
    service = server.RequestHandlerClass.service = Service(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield service
    server.shutdown()
    server.server_close()


def manifest(address: str, **changes: Any) -> dict[str, Any]:
    """A tool that refunds an invoice, as its operator would write it down."""
    terms = changes.pop("contract", {})
    return {
        "name": "refund_invoice",
        "address": address,
        "description": "Refunds an invoice.",
        "arguments": {
            "type": "object",
            "additionalProperties": False,
            "required": ["invoice", "amount"],
            "properties": {
                "invoice": {"type": "string", "maxLength": 40},
                "amount": {"type": "number", "exclusiveMinimum": 0},
                "note": {"type": "string"},
            },
        },
        "routes": ["plan", "rollback", "compensate", "find_receipt"],
        "contract": {
            "owner_service": "billing",
            "operation_key": "refund_invoice:{tenant}:{invoice}",
            "timeout_s": 5,
            **terms,
        },
        **changes,
    }


@pytest.fixture
def registered(service: Service, acme: Tenant) -> Callable[..., HttpManifest]:
    """Registers a version of the tool for acme."""

    def register(**changes: Any) -> HttpManifest:
        version = HttpManifest.read(manifest(**{"address": service.address, **changes}))
        registrations.register(acme, version, by=OPERATOR, via=Surface.COMMAND)
        return version

    return register
