"""What the sandbox knows and does; its own SQLite file, so that it survives a restart."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (kind TEXT, subject TEXT, at REAL);
CREATE TABLE IF NOT EXISTS answers (
    operation TEXT, key TEXT, body TEXT, answer TEXT, PRIMARY KEY (operation, key));
CREATE TABLE IF NOT EXISTS holds (
    id TEXT PRIMARY KEY, key TEXT UNIQUE, flight TEXT, passenger TEXT, price TEXT,
    expires_at REAL, released INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS bookings (
    reference TEXT PRIMARY KEY, hold_id TEXT, price TEXT, canceled INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS prices (flight TEXT PRIMARY KEY, price TEXT);
CREATE TABLE IF NOT EXISTS refunds (
    id TEXT PRIMARY KEY, payment_id TEXT, amount TEXT, currency TEXT, reversed INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS terminations (id TEXT PRIMARY KEY, instance_id TEXT, at REAL);
"""
CUSTOMERS = ("Ana Ruiz", "Jonas Weber", "Mei Tanaka", "Priya Nair", "Lars Holm", "Zoe Martin")
ROUTES = (("LIS", "BER"), ("CDG", "JFK"), ("AMS", "NRT"), ("MAD", "OSL"), ("FCO", "LHR"))
CURRENCIES = ("EUR", "USD", "GBP", "JPY")


@dataclass
class Refused(Exception):
    """The sandbox says no, with an HTTP status."""

    status: int
    message: str


class World:
    """One lock around everything: effects are never half counted."""

    def __init__(self, path: str) -> None:
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.db.row_factory = sqlite3.Row
        self.db.executescript(SCHEMA)
        self.lock = threading.RLock()

    # --- payment provider -------------------------------------------------------------------

    def payment(self, payment_id: str) -> dict[str, Any]:
        """Every ``pay_<number>`` exists; who paid how much follows from its number."""
        if not (match := re.fullmatch(r"pay_(\d{1,12})", payment_id)):
            raise Refused(404, f"There is no payment {payment_id}.")
        number = int(match[1])
        currency = "EUR" if number < 10_000 else CURRENCIES[number % len(CURRENCIES)]
        amount = Decimal(480) if number == 1042 else Decimal(40 + _dice(payment_id) % 900)
        refunded = self._refunded(payment_id)
        return {
            "payment_id": payment_id,
            "customer": CUSTOMERS[number % len(CUSTOMERS)] if number != 1042 else "Ana Ruiz",
            "order": str(number),
            "amount": str(amount),
            "currency": currency,
            "refundable": str(amount - refunded),
        }

    def refund(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        body = _exactly(body, payment_id=str, amount=str)
        return self._once("refund", key, body, self._refund)

    def _refund(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        payment = self.payment(body["payment_id"])
        amount = _money(body["amount"])
        if amount > Decimal(payment["refundable"]):
            raise Refused(
                422, f"Only {payment['refundable']} {payment['currency']} can be refunded."
            )
        refund_id = f"re_{uuid.uuid4().hex[:16]}"
        self._effect("refund", f"refund:{body['payment_id']}")
        self.db.execute(
            "INSERT INTO refunds (id, payment_id, amount, currency) VALUES (?, ?, ?, ?)",
            (refund_id, body["payment_id"], str(amount), payment["currency"]),
        )
        return {"refund_id": refund_id, "amount": str(amount), "currency": payment["currency"]}

    def refund_with_key(self, key: str) -> dict[str, Any]:
        return self._answer_to("refund", key)

    def reverse_refund(self, refund_id: str) -> dict[str, Any]:
        """Repeating it changes nothing."""
        with self.lock:
            row = self._row("SELECT * FROM refunds WHERE id = ?", refund_id)
            if row is None:
                raise Refused(404, f"There is no refund {refund_id}.")
            if not row["reversed"]:
                self._effect("reversal", f"reversal:{refund_id}")
                self.db.execute("UPDATE refunds SET reversed = 1 WHERE id = ?", (refund_id,))
            return {"reversal_id": f"rv_{refund_id[3:]}"}

    def _refunded(self, payment_id: str) -> Decimal:
        rows = self.db.execute(
            "SELECT amount FROM refunds WHERE payment_id = ? AND NOT reversed", (payment_id,)
        )
        return sum((Decimal(row["amount"]) for row in rows), Decimal(0))

    # --- airline ------------------------------------------------------------------------------

    def flight(self, flight: str) -> dict[str, Any]:
        if not re.fullmatch(r"[A-Z]{2}\d{2,4}", flight):
            raise Refused(404, f"There is no flight {flight}.")
        route = ROUTES[_dice(flight) % len(ROUTES)]
        row = self._row("SELECT price FROM prices WHERE flight = ?", flight)
        price = row["price"] if row else str(90 + _dice(flight) % 600)
        return {
            "flight": flight,
            "from": route[0],
            "to": route[1],
            "price": price,
            "currency": "EUR",
        }

    def flights(self, origin: str, destination: str) -> list[dict[str, Any]]:
        found = (self.flight(f"AS{number}") for number in range(100, 200))
        return [item for item in found if (item["from"], item["to"]) == (origin, destination)][:10]

    def set_price(self, flight: str, body: dict[str, Any]) -> dict[str, Any]:
        price = _money(_exactly(body, price=str)["price"])
        with self.lock:
            self.db.execute("REPLACE INTO prices VALUES (?, ?)", (flight, str(price)))
        return self.flight(flight)

    def hold(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        body = _exactly(body, flight=str, passenger=str, seconds=int)
        with self.lock:
            row = self._row("SELECT * FROM holds WHERE key = ?", key)
            if row is None or row["released"] or row["expires_at"] < time.time():
                self.db.execute("DELETE FROM holds WHERE key = ?", (key,))
                flight = self.flight(body["flight"])
                seconds = min(max(body["seconds"], 1), 86_400)
                self.db.execute(
                    "INSERT INTO holds (id, key, flight, passenger, price, expires_at)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (f"hold_{uuid.uuid4().hex[:12]}", key, body["flight"], body["passenger"],
                     flight["price"], time.time() + seconds),
                )  # fmt: skip
            row = self._row("SELECT * FROM holds WHERE key = ?", key)
            assert row is not None
            return {**self.flight(row["flight"]), "hold_id": row["id"], "price": row["price"],
                    "expires_at": row["expires_at"]}  # fmt: skip

    def release(self, hold_id: str) -> dict[str, Any]:
        """Releasing what is not held succeeds as well."""
        with self.lock:
            self.db.execute("UPDATE holds SET released = 1 WHERE id = ?", (hold_id,))
        return {"released": hold_id}

    def book(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        return self._once("booking", key, _exactly(body, hold_id=str), self._book)

    def _book(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        hold = self._row("SELECT * FROM holds WHERE id = ?", body["hold_id"])
        if hold is None or hold["released"] or hold["expires_at"] < time.time():
            raise Refused(409, "The seat is not held any more.")
        reference = uuid.uuid4().hex[:6].upper()
        self._effect("booking", f"booking:{key}")
        self.db.execute(
            "INSERT INTO bookings (reference, hold_id, price) VALUES (?, ?, ?)",
            (reference, hold["id"], hold["price"]),
        )
        self.db.execute("UPDATE holds SET released = 1 WHERE id = ?", (hold["id"],))
        return {"booking_reference": reference, "price": hold["price"], "currency": "EUR"}

    def booking_with_key(self, key: str) -> dict[str, Any]:
        return self._answer_to("booking", key)

    def cancel_booking(self, reference: str) -> dict[str, Any]:
        with self.lock:
            row = self._row("SELECT * FROM bookings WHERE reference = ?", reference)
            if row is None:
                raise Refused(404, f"There is no booking {reference}.")
            if not row["canceled"]:
                self._effect("cancellation", f"cancellation:{reference}")
                self.db.execute(
                    "UPDATE bookings SET canceled = 1 WHERE reference = ?", (reference,)
                )
            return {"cancellation_id": f"cx_{reference}"}

    # --- cloud ---------------------------------------------------------------------------------

    def instance(self, instance_id: str) -> dict[str, Any]:
        if not re.fullmatch(r"i-[0-9a-f]{4,17}", instance_id):
            raise Refused(404, f"There is no instance {instance_id}.")
        row = self._row("SELECT * FROM terminations WHERE instance_id = ?", instance_id)
        return {
            "instance_id": instance_id,
            "name": f"web-{_dice(instance_id) % 90 + 10}",
            "state": "terminated" if row else "running",
            "termination_id": row["id"] if row else None,
        }

    def terminate(self, instance_id: str, body: dict[str, Any]) -> dict[str, Any]:
        """Honours no key, as some clouds do not: every call is an effect."""
        _exactly(body)
        with self.lock:
            self.instance(instance_id)
            termination_id = f"term_{uuid.uuid4().hex[:12]}"
            self._effect("termination", f"termination:{instance_id}")
            self.db.execute(
                "INSERT INTO terminations VALUES (?, ?, ?)",
                (termination_id, instance_id, time.time()),
            )
            return {"termination_id": termination_id, "instance_id": instance_id}

    # --- the count ------------------------------------------------------------------------------

    def effects(self) -> dict[str, Any]:
        with self.lock:
            rows = self.db.execute("SELECT kind, subject FROM effects").fetchall()
            holds = self.db.execute(
                "SELECT count(*) FROM holds WHERE NOT released AND expires_at > ?", (time.time(),)
            ).fetchone()[0]
        by_kind: dict[str, int] = {}
        by_subject: dict[str, int] = {}
        for row in rows:
            by_kind[row["kind"]] = by_kind.get(row["kind"], 0) + 1
            by_subject[row["subject"]] = by_subject.get(row["subject"], 0) + 1
        return {
            "total": len(rows),
            "by_kind": by_kind,
            "by_subject": by_subject,
            "live_holds": holds,
        }

    def reset(self) -> dict[str, Any]:
        with self.lock:
            for table in ("effects", "answers", "holds", "bookings", "prices", "refunds",
                          "terminations"):  # fmt: skip
                self.db.execute(f"DELETE FROM {table}")
        return {"reset": True}

    def receipt(self, receipt: str) -> dict[str, Any]:
        """The public page of one receipt."""
        for table, column in (("refunds", "id"), ("bookings", "reference"), ("terminations", "id")):
            row = self._row(f"SELECT * FROM {table} WHERE {column} = ?", receipt)
            if row is not None:
                return dict(row)
        raise Refused(404, f"There is no receipt {receipt}.")

    def _once(
        self, operation: str, key: str, body: dict[str, Any],
        perform: Callable[[dict[str, Any], str], dict[str, Any]],
    ) -> dict[str, Any]:  # fmt: skip
        """The same key and body: the same answer. The same key, another body: refused."""
        if not key:
            raise Refused(400, "An Idempotency-Key is required.")
        with self.lock:
            row = self._row(
                "SELECT body, answer FROM answers WHERE operation = ? AND key = ?", operation, key
            )
            if row is None:
                answer = perform(body, key)
                self.db.execute(
                    "INSERT INTO answers VALUES (?, ?, ?, ?)",
                    (operation, key, json.dumps(body, sort_keys=True), json.dumps(answer)),
                )
                return answer
            if row["body"] != json.dumps(body, sort_keys=True):
                raise Refused(409, "This Idempotency-Key was used for another request.")
            return dict(json.loads(row["answer"]))

    def _answer_to(self, operation: str, key: str) -> dict[str, Any]:
        row = self._row(
            "SELECT answer FROM answers WHERE operation = ? AND key = ?", operation, key
        )
        if row is None:
            raise Refused(404, f"No {operation} has this key.")
        return dict(json.loads(row["answer"]))

    def _effect(self, kind: str, subject: str) -> None:
        self.db.execute("INSERT INTO effects VALUES (?, ?, ?)", (kind, subject, time.time()))

    def _row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        with self.lock:
            row: sqlite3.Row | None = self.db.execute(sql, values).fetchone()
            return row


def _dice(text: str) -> int:
    """The same for the same text, on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _exactly(body: dict[str, Any], **fields: type) -> dict[str, Any]:
    if set(body) != set(fields):
        raise Refused(400, f"Send exactly these fields: {', '.join(sorted(fields)) or 'none'}.")
    for name, kind in fields.items():
        if type(body[name]) is not kind:
            raise Refused(400, f"{name} must be of type {kind.__name__}.")
    return body


def _money(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise Refused(400, f"{text!r} is not an amount.") from None
    if not amount.is_finite() or amount <= 0:
        raise Refused(400, f"{text!r} is not an amount.")
    return amount
