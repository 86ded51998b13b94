"""A tool over HTTP in its easy mode: one address, one secret, nothing but the standard library.

    python easy_tool.py 9000 secret.txt refunds.json

serves ``refund_invoice`` at http://127.0.0.1:9000 for the Assent that knows the secret in the file
(``manage.py tools credential --signing-secret``); the last file is its ledger. The protocol is in
docs/http-tools.md; ``tool.py`` beside it is the same service with the stronger signatures.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Reply = tuple[int, dict[str, Any]]
Row = dict[str, Any] | None
OURS = {"tenant": "acme", "tool": "refund_invoice"}


def key_in(file: Path) -> bytes:
    """Without a secret anybody could sign, so the service does not start."""
    key = base64.b64decode(file.read_text().strip().removeprefix("whsec_"), validate=True)
    if len(key) < 24:
        sys.exit(f"There is no secret in {file}.")
    return key


def is_from_assent(headers: Message, body: bytes, key: bytes) -> bool:
    """The check of any library for Standard Webhooks: the signature is right, and of just now."""
    sent_at = headers["webhook-timestamp"]
    signed = hmac.new(key, f"{headers['webhook-id']}.{sent_at}.".encode() + body, hashlib.sha256)
    right = b"v1," + base64.b64encode(signed.digest())
    given = headers["webhook-signature"].encode().split()
    is_fresh = abs(time.time() - int(sent_at)) < 300
    return is_fresh and any(hmac.compare_digest(right, one) for one in given)


def problem(status: int, kind: str, detail: str) -> Reply:
    return status, {"type": kind, "title": kind.replace("-", " "), "detail": detail}


def is_late(lease_until: str | None) -> bool:
    """A request that was held up on its way: another worker may have looked, and found nothing."""
    return bool(lease_until) and datetime.fromisoformat(str(lease_until)) < datetime.now(UTC)


class Refunds:
    """Refunds done, by operation key: read and written under one lock, kept in a file."""

    def __init__(self, file: Path) -> None:
        self.file, self.lock = file, threading.Lock()
        self.rows: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def carry_out(self, asked: dict[str, Any]) -> Reply:
        """The verb is in the body, which is signed."""
        if {name: asked.get(name) for name in OURS} != OURS:
            return problem(403, "nothing-happened", "It is for another tenant or tool.")
        verbs = {
            "plan": self.plan,
            "replan": self.plan,  # a plan holds nothing here: another one is planned as the first
            "still_valid": self.still_valid,
            "commit": self.commit,
            "rollback": self.rollback,
        }
        with self.lock:
            row = self.rows.get(asked["operation_key"])
            if asked["verb"] == "find_receipt":
                return self.find_receipt(row)
            if row and asked["fencing"] < row["fencing"]:
                return problem(409, "conflict", "Another worker has taken over.")
            if is_late(asked.get("lease_until")):
                return problem(409, "conflict", "Another worker may have taken over.")
            return verbs[asked["verb"]](asked, row)

    def plan(self, asked: dict[str, Any], row: Row) -> Reply:
        if row:
            return problem(409, "conflict", "It was refunded, or the refund was let go of.")
        wanted = asked["arguments"]
        summary = f"Refund {wanted['amount']} EUR for invoice {wanted['invoice']}"
        return 200, {"plan": {"summary": summary, "amount": wanted["amount"], "currency": "EUR"}}

    def commit(self, asked: dict[str, Any], row: Row) -> Reply:
        if row and row.get("arguments") != asked["arguments"]:
            return problem(409, "conflict", "It was let go of, or done with other arguments.")
        if not row:
            receipt = {"id": f"re_{asked['transaction_id'][-8:]}"}
            row = {"arguments": asked["arguments"], "receipt": receipt}
            self.keep(asked, row)  # the effect; a real service moves money here, once per key
        return 200, {"receipt": row["receipt"]}

    def rollback(self, asked: dict[str, Any], row: Row) -> Reply:
        if row and "receipt" in row:
            return problem(409, "conflict", "It was carried out.")
        self.keep(asked, {})  # so that a commit that is late is refused
        return 200, {}

    def still_valid(self, asked: dict[str, Any], row: Row) -> Reply:
        return 200, {"still_valid": not row}

    def find_receipt(self, row: Row) -> Reply:
        if not row or "receipt" not in row:
            return problem(404, "nothing-happened", "There is no such operation.")
        return 200, {"receipt": row["receipt"]}

    def keep(self, asked: dict[str, Any], row: dict[str, Any]) -> None:
        self.rows[asked["operation_key"]] = {**row, "fencing": asked["fencing"]}
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.rows))
        fresh.replace(self.file)


class Handler(BaseHTTPRequestHandler):
    refunds: Refunds
    key: bytes

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            is_ours = is_from_assent(self.headers, body, self.key)
        except (AttributeError, TypeError, ValueError):  # a header is missing, or is not a number
            is_ours = False
        try:
            unsigned = problem(401, "nothing-happened", "Not signed by Assent.")
            status, reply = self.refunds.carry_out(json.loads(body)) if is_ours else unsigned
        except (AttributeError, KeyError, TypeError, ValueError) as failure:
            status, reply = problem(400, "not-understood", type(failure).__name__)
        text = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    port, secret, file = sys.argv[1:]
    Handler.key, Handler.refunds = key_in(Path(secret)), Refunds(Path(file))
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
