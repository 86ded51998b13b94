"""An issuer of tokens with keys of its own, at an address of its own, which may misbehave."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.test import Client as Browser
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from approvals.configuration.oauth_settings import JWT_BEARER
from approvals.oauth.issuer_tables import Issuer, IssuerRule
from approvals.oauth.workloads import keys
from ledger import limits

NAME = "https://tokens.build.example"
CLAIMS = {"repository": "acme/refunds", "ref": "refs/heads/main"}
MAKE = {
    "RS256": (lambda: rsa.generate_private_key(65537, 2048), RSAAlgorithm),
    "ES256": (lambda: ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
    "EdDSA": (ed25519.Ed25519PrivateKey.generate, OKPAlgorithm),
}


class Key:
    """A private key, and its public one as a key set has it."""

    def __init__(self, kid: str, algorithm: str = "ES256") -> None:
        make, form = MAKE[algorithm]
        self.kid, self.algorithm, self.private = kid, algorithm, make()
        public = json.loads(form.to_jwk(self.private.public_key()))
        self.public: dict[str, Any] = {**public, "kid": kid, "use": "sig"}

    def pem(self) -> bytes:
        public: bytes = self.private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        return public

    def token(self, **changes: Any) -> str:
        """A token of now for ten minutes; ``None`` leaves a claim out, and times count from now."""
        now = int(time.time())
        claims = {
            "iss": NAME,
            "aud": "http://localhost:8000",
            "sub": "repo:acme/refunds:ref:refs/heads/main",
            "iat": now,
            "exp": now + 600,
            "jti": str(uuid.uuid4()),
            **CLAIMS,
            **changes,
        }
        claims = {
            name: now + int(value.total_seconds()) if isinstance(value, timedelta) else value
            for name, value in claims.items()
            if value is not None
        }
        # Not jwt.encode, which refuses some of what an issuer might say.
        payload = json.dumps(claims).encode()
        return jwt.api_jws.encode(payload, self.private, self.algorithm, {"kid": self.kid})


def exchange(token: str, **fields: Any) -> Any:
    body = {"grant_type": JWT_BEARER, "assertion": token, **fields}
    return Browser().post("/oauth/token", body)


def failures_left() -> Any:
    """The bucket of this address at the token endpoint."""
    ((bucket, _),) = limits.rates._sign_in_buckets("127.0.0.1", "", limits.Door.TOKENS)
    return bucket


def fail_often() -> None:
    """As somebody who fails for minutes to get a token, from this address."""
    failures_left().level = -100.0


class KeyServer(ThreadingHTTPServer):
    """Serves ``answer`` (status, headers, body) once ``may_answer`` is set, and counts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"{}")
        self.asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def serve(self, *shown: Key) -> None:
        body = json.dumps({"keys": [key.public for key in shown]}).encode()
        self.answer = (200, {"Content-Type": "application/json"}, body)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/keys"


class _Handler(BaseHTTPRequestHandler):
    server: KeyServer

    def do_GET(self) -> None:
        self.server.asked += 1
        self.server.may_answer.wait(30)
        status, headers, body = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def _nothing_was_read() -> Iterator[None]:
    keys.forget()
    yield
    keys.forget()


@contextmanager
def serving(server: KeyServer) -> Iterator[KeyServer]:
    """The server, while it answers."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.may_answer.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def key_server(settings: Any) -> Iterator[KeyServer]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with serving(KeyServer()) as server:
        yield server


@pytest.fixture
def key() -> Key:
    return Key("one")


@pytest.fixture
def issuer(acme, helpdesk, key) -> Issuer:
    """Trusted with this key, for the agent ``helpdesk``."""
    row = Issuer.objects.create(
        tenant=acme, issuer=NAME, keys=[key.public], algorithms=["RS256", "ES256", "EdDSA"]
    )
    IssuerRule.objects.create(issuer=row, agent=helpdesk, claims=CLAIMS, scopes=["propose"])
    return row


@pytest.fixture
def issuer_with_address(issuer, key, key_server) -> Issuer:
    key_server.serve(key)
    issuer.keys, issuer.jwks_url = [], key_server.url
    issuer.save()
    return issuer
