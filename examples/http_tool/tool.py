"""A tool over HTTP: the owner's side in one file, without a framework.

    python tool.py 9000 http://localhost:8000 refunds.json

serves ``refund_invoice`` on port 9000 for the Assent at the second argument; the file of the third
one is its ledger; a fourth one is its own address, where that is not http://127.0.0.1:9000. What it
does is in ``VERBS``; the rest is the protocol (docs/http-tools.md).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from urllib.request import urlopen

import http_message_signatures as hms
import jwt

Reply = tuple[int, dict[str, Any]]
DONE, UNDONE = "done", "undone"
# Assent signs what is asked of every tool of every tenant: only this one is meant for us.
OURS = {"tenant": "acme", "tool": "refund_invoice"}


class Operations:
    """Operations done, by operation key: read and written under one lock, kept in a file."""

    def __init__(self, file: Path) -> None:
        self.file, self.lock = file, threading.Lock()
        self.rows: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def keep(self, key: str, row: dict[str, Any]) -> None:
        self.rows[key] = row
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.rows))
        fresh.replace(self.file)


def is_late(lease_until: str | None) -> bool:
    """A request that was held up on its way: another worker may have looked, and found nothing."""
    return bool(lease_until) and datetime.fromisoformat(str(lease_until)) < datetime.now(UTC)


def problem(status: int, kind: str, detail: str) -> Reply:
    return status, {"type": kind, "title": kind.replace("-", " "), "detail": detail}


def plan(asked: dict[str, Any], known: Any, keep: Any) -> Reply:
    if known:
        return problem(409, "conflict", "This invoice was refunded, or the refund was let go of.")
    wanted = asked["arguments"]
    summary = f"Refund {wanted['amount']} EUR for invoice {wanted['invoice']}"
    return 200, {"plan": {"summary": summary, "amount": wanted["amount"], "currency": "EUR"}}


def commit(asked: dict[str, Any], known: Any, keep: Any) -> Reply:
    if known and known["state"] == UNDONE:
        return problem(409, "conflict", "It was let go of before.")
    if known and known["arguments"] != asked["arguments"]:
        return problem(409, "conflict", "The key was used with other arguments.")
    if not known:
        known = {"state": DONE, "arguments": asked["arguments"]}
        known["receipt"] = {"id": f"re_{asked['transaction_id'][-8:]}"}
        keep(known)  # the effect; a real service moves money here, once per key
    return 200, {"receipt": known["receipt"]}


def rollback(asked: dict[str, Any], known: Any, keep: Any) -> Reply:
    if known and known["state"] == DONE:
        return problem(409, "conflict", "It was carried out.")
    keep({"state": UNDONE})  # so that a commit that is late is refused
    return 200, {}


def still_valid(asked: dict[str, Any], known: Any, keep: Any) -> Reply:
    return 200, {"still_valid": not known}


# A plan holds nothing here, so that another one beside it is planned in the same way.
VERBS = {"plan": plan, "replan": plan, "commit": commit, "rollback": rollback}
VERBS["still_valid"] = still_valid


class Signatures(hms.HTTPSignatureKeyResolver):
    """Checks RFC 9421 signatures by the keys that Assent publishes; each nonce counts once."""

    def __init__(self, assent: str) -> None:
        self.jwks, self.lock = f"{assent}/.well-known/jwks.json", threading.Lock()
        self.seen: dict[str, int] = {}  # nonces, and until when each could be replayed

    def resolve_public_key(self, key_id: str) -> Any:
        with urlopen(self.jwks, timeout=5) as answer:
            keys = jwt.PyJWKSet.from_dict(json.load(answer)).keys
        return next(key.key for key in keys if key.key_id == key_id)

    def check(self, request: Any, body: bytes) -> None:
        """Raises if Assent has not sent exactly this, just now, for the first time."""
        algorithm = hms.algorithms.ED25519
        verifier = hms.HTTPMessageVerifier(signature_algorithm=algorithm, key_resolver=self)
        covered = ["@method", "@target-uri"]
        covered += ["content-digest", "idempotency-key"] if request.method == "POST" else []
        (found,) = verifier.verify(
            request, expect_tag="assent-tool", require_components=covered, body=body or None
        )
        with self.lock:
            now = time.time()
            self.seen = {nonce: until for nonce, until in self.seen.items() if until > now}
            if found.nonce is None or found.nonce in self.seen:
                raise ValueError("The nonce was used before.")
            self.seen[found.nonce] = int(found.parameters["expires"])


class Handler(BaseHTTPRequestHandler):
    operations: Operations
    signatures: Signatures
    origin: str  # our own: the Host header is whatever the sender says

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(body, lambda: self.carry_out(self.path.rpartition("/")[2], json.loads(body)))

    def do_GET(self) -> None:
        key = unquote(self.path.rpartition("/operations/")[2])
        self.answer(b"", lambda: self.look_up(key))

    def carry_out(self, verb: str, asked: dict[str, Any]) -> Reply:
        if verb not in VERBS:
            return problem(404, "no-such-verb", verb)
        if {name: asked.get(name) for name in OURS} != OURS:
            return problem(403, "nothing-happened", "It is for another tenant or tool.")
        key, fencing = asked["operation_key"], asked["fencing"]
        with self.operations.lock:
            known = self.operations.rows.get(key)
            if known and fencing < known["fencing"]:
                return problem(409, "conflict", "Another worker has taken over.")
            if is_late(asked.get("lease_until")):
                return problem(409, "conflict", "Another worker may have taken over.")
            keep = lambda row: self.operations.keep(key, {**row, "fencing": fencing})  # noqa: E731
            status, reply = VERBS[verb](asked, known, keep)
            return status, {"operation_key": key, **reply}

    def look_up(self, key: str) -> Reply:
        row = self.operations.rows.get(key)
        if row is None or row["state"] == UNDONE:
            return problem(404, "nothing-happened", "There is no such operation.")
        return 200, {"operation_key": key, "receipt": row["receipt"]}

    def answer(self, body: bytes, work: Any) -> None:
        self.method, self.url = self.command, f"{self.origin}{self.path}"
        try:
            self.signatures.check(self, body)
        except Exception as refusal:
            status, reply = problem(401, "nothing-happened", f"Not signed by Assent: {refusal}")
        else:
            try:
                status, reply = work()
            except (KeyError, TypeError, ValueError) as failure:
                status, reply = problem(400, "not-understood", type(failure).__name__)
        text = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    port, assent, file, *origin = sys.argv[1:]
    Handler.origin = origin[0] if origin else f"http://127.0.0.1:{port}"
    Handler.operations, Handler.signatures = Operations(Path(file)), Signatures(assent)
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
