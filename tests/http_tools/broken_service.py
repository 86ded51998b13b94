"""A service on loopback that keeps the protocol strictly, but for the faults that a test names."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import http_message_signatures as hms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

from tests.http_tools.conftest import manifest

Reply = tuple[int, dict[str, Any]]
CONTRACT = {
    "name": "refund_invoice",
    "version": "1",
    "description": "Refunds an invoice.",
    "json_schema": manifest("")["arguments"],
    "promises": {"reversible": True, "idempotent": True, "receipt_lookup": True, "plan": True},
}
CONTRACT["promises"] |= {"replan": True, "still_valid": True}
COVERED = ["@method", "@target-uri", "content-digest", "idempotency-key"]


def conflict() -> Reply:
    return 409, {"type": "conflict"}


@dataclass
class Behaviour:
    """What it did, and what it does wrong."""

    key: Ed25519PrivateKey | None
    fault: str = ""
    secret: str = ""  # in place of the key: it is asked by webhooks
    header: str = ""  # the value of X-Api-Key that it wants to see; empty: none
    host: str = ""
    rows: dict[str, Any] = field(default_factory=dict)
    holds: dict[str, str] = field(default_factory=dict)  # the operation of each; empty: released
    seen: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)
    barriers: dict[str, threading.Barrier] = field(default_factory=dict)

    def carry_out(self, verb: str, asked: dict[str, Any]) -> Reply:
        key, known = asked["operation_key"], self.rows.get(asked["operation_key"])
        if known and asked["fencing"] < known["fencing"] and self.fault != "stale fencing":
            return conflict()
        lapsed = datetime.fromisoformat(asked["lease_until"]) < datetime.now(UTC)
        if lapsed and self.fault != "lapsed lease":
            return conflict()
        match verb:
            case "plan" | "replan":
                is_late = known and self.fault != "late plan"
                if verb == "replan" and self.fault == "replan":
                    self.holds = dict.fromkeys(self.holds, "")
                return conflict() if is_late else (200, {"plan": self.planned(key)})
            case "still_valid":
                if self.fault == "effect of still valid":
                    self.commit(key, known, asked)
                return 200, {} if self.fault == "still valid" else {"still_valid": not known}
            case "rollback":
                return self.roll_back(key, known, asked)
            case "compensate":
                return self.compensate(known)
            case _:
                return self.commit(key, known, asked)

    def planned(self, key: str) -> dict[str, Any]:
        self.holds[hold := f"hold_{len(self.holds):04}"] = key
        return {} if self.fault == "plan" else {"summary": "Refund", "held": {"hold": hold}}

    def roll_back(self, key: str, known: Any, asked: dict[str, Any]) -> Reply:
        if known and "receipt" in known and self.fault != "rollback of what was done":
            return conflict()
        if not known and self.fault == "empty rollback":
            return 404, {"type": "no-such-operation"}
        hold = asked["held"].get("hold", "")
        if self.fault == "rollback of a former plan" and "" < hold < max(self.holds):
            self.rows[self.holds[hold]] = {"fencing": asked["fencing"]}
        if hold:
            self.holds[hold] = ""
        self.rows[key] = {"fencing": asked["fencing"]}
        return 200, {}

    def commit(self, key: str, known: Any, asked: dict[str, Any]) -> Reply:
        if known and "receipt" not in known and self.fault != "late commit":
            return conflict()
        if "hold" in asked["held"] and not self.holds[asked["held"]["hold"]]:
            return conflict()
        if known and "receipt" in known and self.fault != "double commit":
            if known["arguments"] != asked["arguments"] and self.fault != "other arguments":
                return conflict()
            return 200, {"receipt": known["receipt"]}
        if self.fault == "two commits at once":
            # Each has looked before any writes. A commit that is alone goes on after a moment.
            with suppress(threading.BrokenBarrierError):
                self.barriers.setdefault(key, threading.Barrier(4, timeout=0.3)).wait()
        receipt = {} if self.fault == "commit" else {"id": asked["transaction_id"]}
        self.rows[key] = {
            "fencing": asked["fencing"],
            "arguments": asked["arguments"],
            "receipt": receipt,
        }
        return 200, {"receipt": receipt}

    def compensate(self, known: Any) -> Reply:
        if not known or "receipt" not in known:
            is_paid = self.fault == "compensate of nothing"
            return (200, {"receipt": {"id": "un_0"}}) if is_paid else conflict()
        if self.fault == "compensate":
            return 200, {}
        made_good = known.setdefault("made_good", [])
        if not made_good or self.fault == "double compensate":
            made_good.append(f"un_{len(made_good)}")
        return 200, {"receipt": {"id": made_good[-1]}}

    def contract(self) -> Reply:
        found: dict[str, Any] = copy.deepcopy(CONTRACT)
        match self.fault:
            case "published contract":
                found["promises"] = {}
            case "promises":
                found["promises"]["idempotent"] = False
            case "arguments":
                found["json_schema"]["properties"]["amount"]["exclusiveMinimum"] = 100
        return 200, found

    def look_up(self, key: str) -> Reply:
        row = self.rows.get(key)
        if row is None or "receipt" not in row:
            return (200, {}) if self.fault == "unknown operation" else (404, {"type": "unknown"})
        return (200, {"receipt": {"id": "x"}} if self.fault == "look-up" else row)


class _Keys(hms.HTTPSignatureKeyResolver):
    def __init__(self, key: Ed25519PrivateKey) -> None:
        self.key = key

    def resolve_public_key(self, key_id: str) -> Any:
        return self.key.public_key()


class _TakesOld(hms.HTTPMessageVerifier):
    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        if int(sig_input.params["created"]) > time.time() + 5:
            raise hms.InvalidSignature("early")


class _TakesEarly(hms.HTTPMessageVerifier):
    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        if int(sig_input.params["expires"]) < time.time() - 5:
            raise hms.InvalidSignature("old")


VERIFIERS = {"expired signature": _TakesOld, "early signature": _TakesEarly}


class _Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        it = self.behaviour
        host = self.headers["Host"] if it.fault == "other address" else it.host
        self.method, self.url = self.command, f"http://{host}{self.path}"
        if it.fault == "other target" and ":rollback" in str(self.headers["Idempotency-Key"]):
            self.url = self.url.replace("/commit", "/rollback")
        if not (self._is_webhook(body) if it.secret else self._is_signed(body)):
            self._send(401, {"type": "nothing-happened"})
        elif it.header not in {"", self.headers["X-Api-Key"]} and it.fault != "credential":
            self._send(403, {"type": "nothing-happened"})
        elif self.path == "/contract":
            self._send(*it.contract())
        elif self.command == "GET":
            self._send(*it.look_up(unquote(self.path.rpartition("/")[2])))
        else:
            try:
                asked = json.loads(body)
            except ValueError:
                self._send(200 if it.fault == "broken body" else 400, {})
                return
            self._send(*self._reply_to(asked))

    def _reply_to(self, asked: dict[str, Any]) -> Reply:
        it = self.behaviour
        is_ours = asked["tool"] == "refund_invoice" and asked["tenant"] == "check"
        if not is_ours and it.fault != "another tool or tenant":
            return 403, {"type": "nothing-happened"}
        told = self.headers.get("Idempotency-Key", "").strip('"').rpartition(":")
        verb = asked["verb"] if it.secret else self.path.rpartition("/")[2]
        match it.fault:
            case "verb of header":
                verb = told[2] or verb
            case "verb of path":
                verb = self.path.rpartition("/")[2] or verb
            case "key of header":
                asked = {**asked, "operation_key": unquote(told[0])}
        if verb == "contract":
            return it.contract()
        if verb == "find_receipt":
            return it.look_up(asked["operation_key"])
        with nullcontext() if it.fault == "two commits at once" else it.lock:
            return it.carry_out(verb, asked)

    def _is_webhook(self, body: bytes) -> bool:
        it = self.behaviour
        if "webhook-signature" not in self.headers:
            return it.fault == "missing signature"
        sent_at = datetime.fromtimestamp(int(self.headers["webhook-timestamp"]), UTC)
        age, most = datetime.now(UTC) - sent_at, timedelta(minutes=5)
        is_fresh = age < most or it.fault == "expired signature"
        is_due = age > -most or it.fault == "early signature"
        signed = b"{}" if it.fault == "altered body" else body
        right = Webhook(it.secret).sign(self.headers["webhook-id"], sent_at, signed.decode())
        is_right = it.fault == "altered body" or self.headers["webhook-signature"] == right
        return (is_right or it.fault == "bad signature") and is_fresh and is_due

    def _is_signed(self, body: bytes) -> bool:
        it = self.behaviour
        if "Signature" not in self.headers:
            return it.fault == "missing signature"
        try:
            nonce = self._nonce(body)
        except hms.HTTPMessageSignaturesException:
            return it.fault == "bad signature"
        with it.lock:
            is_new = nonce not in it.seen
            it.seen.add(nonce)
        return is_new or it.fault == "replayed nonce"

    def _nonce(self, body: bytes) -> str:
        it = self.behaviour
        verifier = VERIFIERS.get(it.fault, hms.HTTPMessageVerifier)
        read = None if it.fault == "altered body" else body or None
        (found,) = verifier(
            signature_algorithm=hms.algorithms.ED25519, key_resolver=_Keys(it.key)
        ).verify(
            self,
            expect_tag="assent-tool",
            require_components=COVERED if body else COVERED[:2],
            body=read,
        )
        return str(found.nonce)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        fault = self.behaviour.fault
        if status == 200 and "receipt" in body and fault == "operation of answers":
            body = {**body, "operation_key": "another"}
        text = json.dumps(body).encode()
        if status == 404 and fault == "slow answers":
            self.behaviour.released.wait(20)
        if status == 404 and fault == "large answers":
            text = json.dumps({"log": "x" * 300_000}).encode()
        if status == 409 and fault == "form of answers":
            text = b"<html>"
        if status == 401 and fault == "secrets":
            text = json.dumps({"detail": self.headers.get("Signature", "")}).encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Its address, as long as it runs."""
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    behaviour.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        behaviour.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
