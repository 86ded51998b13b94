"""``Probe``: requests to a service as Assent sends them, and such as nobody should accept."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol
from urllib.parse import quote
from uuid import uuid4

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.foundation import http_out
from ledger.foundation.crypto import signing_keys, standard_webhooks
from ledger.tools.http import (
    LARGEST_ANSWER,
    Answer,
    NotProved,
    object_in,
    sign_as_webhook,
    sign_with,
)
from ledger.tools.manifests import HttpManifest

SHOWN = 300  # characters of an answer


class Unexpected(Exception):
    """The text is what came instead."""


class Skipped(Exception):
    """The text is why the check does not apply."""


class Signer(Protocol):
    """Signs as Assent does, and says how it asks for a verb."""

    headers: ClassVar[Sequence[str]]  # that a signature is made of

    def request(self, address: str, verb: str, body: Mapping[str, Any]) -> httpx.Request: ...

    def sign(self, request: httpx.Request, at: datetime) -> None: ...

    def sign_as_another(self, request: httpx.Request) -> None:
        """By somebody who does not know what Assent knows."""


@dataclass(frozen=True, slots=True)
class WithKey:
    """RFC 9421, and a path for each verb."""

    key: Ed25519PrivateKey
    headers: ClassVar[Sequence[str]] = (
        "Signature-Input",
        "Signature",
        "Content-Digest",
        "Idempotency-Key",
    )

    def request(self, address: str, verb: str, body: Mapping[str, Any]) -> httpx.Request:
        if verb == "find_receipt":
            key = quote(str(body["operation_key"]), safe="")
            return httpx.Request("GET", f"{address}/operations/{key}")
        if verb == "contract":
            return httpx.Request("GET", f"{address}/contract")
        return httpx.Request("POST", f"{address}/{verb}", json=dict(body))

    def sign(self, request: httpx.Request, at: datetime) -> None:
        sign_with(self.key, request, at=at)

    def sign_as_another(self, request: httpx.Request) -> None:
        """Under the name of our key."""
        stranger = Ed25519PrivateKey.generate()
        sign_with(stranger, request, key_id=signing_keys.key_id(self.key))


@dataclass(frozen=True, slots=True)
class WithSecret:
    """Standard Webhooks, and the verb in the body."""

    secret: str
    headers: ClassVar[Sequence[str]] = ("webhook-id", "webhook-timestamp", "webhook-signature")

    def request(self, address: str, verb: str, body: Mapping[str, Any]) -> httpx.Request:
        return httpx.Request("POST", address, json={"verb": verb, **body})

    def sign(self, request: httpx.Request, at: datetime) -> None:
        sign_as_webhook(request, [self.secret], at=at)

    def sign_as_another(self, request: httpx.Request) -> None:
        sign_as_webhook(request, [standard_webhooks.new_secret()])


class Owner(Protocol):
    """Kills the service, and starts it again."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """Questions to the service: a tool and its routes, and two sets of arguments that fit."""

    tool: str
    arguments: Mapping[str, Any]
    other_arguments: Mapping[str, Any]
    routes: frozenset[str] = frozenset({"plan", "rollback", "find_receipt"})
    tenant: str = "check"


@dataclass(slots=True)
class Heard:
    """One answer; ``trouble`` is why there is none, or why it cannot be read."""

    took_s: float
    response: httpx.Response | None = None
    trouble: str = ""
    is_too_large: bool = False
    signature: str = ""  # of the request
    operation_key: str = ""  # that was asked for

    @property
    def answer(self) -> Answer:
        """Raises ``Unexpected``."""
        if self.response is None:
            raise Unexpected(self.trouble)
        try:
            return Answer(self.response.status_code, object_in(self.response.content))
        except NotProved as failure:
            raise Unexpected(f"{self.response.status_code}: {failure}") from failure

    def __str__(self) -> str:
        if self.response is None:
            return self.trouble
        return f"{self.response.status_code} {self.response.text[:SHOWN]}".rstrip()


@dataclass(slots=True)
class Probe:
    """Sends to ``address``; remembers every answer, for the checks of all of them."""

    address: str
    sample: Sample
    signer: Signer
    timeout_s: float = 30.0
    owner: Owner | None = None
    shown: Mapping[str, str] = field(default_factory=dict)  # headers that the service asks for
    manifest: HttpManifest | None = None
    heard: list[Heard] = field(default_factory=list)

    def new_key(self) -> str:
        return f"check:{secrets.token_hex(8)}"

    def body(self, operation_key: str, **changes: Any) -> dict[str, Any]:
        return {
            "tool": self.sample.tool,
            "version": None,
            "operation_key": operation_key,
            "transaction_id": str(uuid4()),
            "fencing": 5,
            "lease_until": (datetime.now(UTC) + timedelta(minutes=5)).isoformat(),
            "tenant": self.sample.tenant,
            "arguments": dict(self.sample.arguments),
            "held": {},
            "receipt": None,
            **changes,
        }

    def request(self, verb: str, body: Mapping[str, Any]) -> httpx.Request:
        """Not signed yet."""
        request = self.signer.request(self.address, verb, body)
        request.headers.update({"Accept": "application/json", **self.shown})
        key = quote(str(body["operation_key"]), safe=":")
        request.headers["Idempotency-Key"] = f'"{key}:{verb}"'
        return request

    def broken_request(self) -> httpx.Request:
        """Of a commit, not signed yet; its body is no JSON."""
        meant = self.request("commit", self.body("broken"))
        del meant.headers["Content-Length"]
        return httpx.Request(
            "POST", meant.url, content=b'{"operation_key": ', headers=meant.headers
        )

    def signed(self, request: httpx.Request, *, ago: timedelta = timedelta()) -> httpx.Request:
        self.signer.sign(request, datetime.now(UTC) - ago)
        return request

    def signed_by_another(self, request: httpx.Request) -> httpx.Request:
        self.signer.sign_as_another(request)
        return request

    def ask(self, verb: str, operation_key: str, **changes: Any) -> Heard:
        heard = self.send(self.signed(self.request(verb, self.body(operation_key, **changes))))
        heard.operation_key = operation_key
        return heard

    def look_up(self, operation_key: str) -> Heard:
        return self.ask("find_receipt", operation_key)

    def contract(self) -> Heard:
        """The contract it publishes; not remembered, as nothing is in doubt by it."""
        named = {"tool": self.sample.tool, "tenant": self.sample.tenant}
        request = self.signer.request(self.address, "contract", named)
        request.headers.update({"Accept": "application/json", **self.shown})
        self.send(self.signed(request))
        return self.heard.pop()

    def send(self, request: httpx.Request) -> Heard:
        began = time.monotonic()
        try:
            response = http_out.send(
                request,
                timeout_s=self.timeout_s,
                largest_answer=LARGEST_ANSWER,
                any_network=True,
            )
        except (http_out.AddressRefused, httpx.HTTPError, TimeoutError, OSError) as failure:
            fault = f"no answer: {type(failure).__name__} {failure}".rstrip()
            is_too_large = isinstance(failure, http_out.AnswerRefused)
            heard = Heard(time.monotonic() - began, None, fault, is_too_large)
        else:
            heard = Heard(time.monotonic() - began, response)
        heard.signature = _signature_in(request.headers)
        self.heard.append(heard)
        return heard

    def needs(self, route: str) -> None:
        """Raises ``Skipped`` for a tool that does not offer it."""
        if route not in self.sample.routes:
            raise Skipped(f"the tool has no route {route}")

    def receipt_of(self, heard: Heard, operation_key: str) -> str:
        """The receipt of a commit, also of one that takes its time. Raises ``Unexpected``."""
        deadline = time.monotonic() + self.timeout_s
        while heard.answer.status == 202 and time.monotonic() < deadline:
            time.sleep(min(heard.answer.retry_after_s, 1))
            heard = self.look_up(operation_key)
        receipt = heard.answer.body.get("receipt")
        if heard.answer.status != 200 or not isinstance(receipt, dict) or not receipt.get("id"):
            raise Unexpected(str(heard))
        return str(receipt["id"])

    def committed(self) -> tuple[str, str]:
        """A key that was carried out just now, and its receipt. Raises ``Unexpected``."""
        key = self.new_key()
        return key, self.receipt_of(self.ask("commit", key), key)


def _signature_in(headers: httpx.Headers) -> str:
    if "webhook-signature" in headers:
        return str(headers["webhook-signature"]).removeprefix("v1,")
    return str(headers.get("Signature", "")).partition("=:")[2].rstrip(":")
