"""``Probe``: requests to a service as Assent sends them, and such as nobody should accept."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import quote
from uuid import uuid4

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger import safe_http, signing_keys
from ledger.http_tools import signing
from ledger.http_tools.answers import Answer, NotProved, object_in
from ledger.http_tools.exchange import LARGEST_ANSWER

SHOWN = 300  # characters of an answer


class Unexpected(Exception):
    """The text is what came instead."""


class Skipped(Exception):
    """The text is why the check does not apply."""


class Owner(Protocol):
    """Kills the service, and starts it again."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """What is asked of the service: a tool and its routes, and two sets of arguments that fit."""

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
    key: Ed25519PrivateKey
    timeout_s: float = 30.0
    owner: Owner | None = None
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
            "tenant": self.sample.tenant,
            "arguments": dict(self.sample.arguments),
            "held": {},
            "receipt": None,
            **changes,
        }

    def request(self, verb: str, body: Mapping[str, Any] | bytes, key: str = "") -> httpx.Request:
        """Not signed yet."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        key = key if isinstance(body, bytes) else str(body["operation_key"])
        return httpx.Request(
            "POST",
            f"{self.address}/{verb}",
            content=content,
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Idempotency-Key": f'"{quote(key, safe=":")}:{verb}"',
            },
        )

    def signed(self, request: httpx.Request, *, ago: timedelta = timedelta()) -> httpx.Request:
        signing.sign_with(self.key, request, at=datetime.now(UTC) - ago)
        return request

    def signed_by_another(self, request: httpx.Request) -> httpx.Request:
        """With a key that nobody knows, under the name of ours."""
        stranger = Ed25519PrivateKey.generate()
        signing.sign_with(stranger, request, key_id=signing_keys.key_id(self.key))
        return request

    def ask(self, verb: str, operation_key: str, **changes: Any) -> Heard:
        return self.send(self.signed(self.request(verb, self.body(operation_key, **changes))))

    def look_up(self, operation_key: str) -> Heard:
        address = f"{self.address}/operations/{quote(operation_key, safe='')}"
        request = httpx.Request("GET", address, headers={"Accept": "application/json"})
        return self.send(self.signed(request))

    def send(self, request: httpx.Request) -> Heard:
        began = time.monotonic()
        try:
            response = safe_http.send(
                request,
                timeout_s=self.timeout_s,
                largest_answer=LARGEST_ANSWER,
                any_network=True,
            )
        except (safe_http.AddressRefused, httpx.HTTPError, TimeoutError, OSError) as failure:
            said = f"no answer: {type(failure).__name__} {failure}".rstrip()
            is_too_large = isinstance(failure, safe_http.AnswerRefused)
            heard = Heard(time.monotonic() - began, None, said, is_too_large)
        else:
            heard = Heard(time.monotonic() - began, response)
        heard.signature = request.headers.get("Signature", "").partition("=:")[2].rstrip(":")
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
