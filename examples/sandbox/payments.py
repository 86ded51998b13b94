"""The payment provider: payments, refunds and reversals, with idempotency keys.

It has the payments ``pay_1042``, ``pay_2000`` to ``pay_9999`` and those that were added, each with
a customer and an amount, and refuses any other.
"""

from __future__ import annotations

import re
import sqlite3
from decimal import Decimal
from typing import Any

from examples.sandbox.store import Store, new_id
from examples.sandbox.wire import (
    Answer,
    Ask,
    Refused,
    amount,
    currency,
    dice,
    in_minor_digits,
    money,
    route,
    text,
)

CUSTOMERS = (
    "Ana Ruiz",
    "Jonas Weber",
    "Priya Nair",
    "Chloé Dubois",
    "Kenji Sato",
    "Maria Rossi",
    "Tom O'Brien",
    "Aisha Khan",
    "Lars Nilsson",
    "Zofia Kowalska",
    "Daniel Okafor",
    "Mei Tanaka",
    "Lucía Fernández",
    "Peter Novák",
    "Sofia Almeida",
    "Henry Clarke",
    "Nadia Haddad",
    "Emma de Vries",
    "Ravi Menon",
    "Grace Thompson",
    "Mateo Silva",
    "Ingrid Berg",
    "Yuki Mori",
    "Samuel Adeyemi",
)
CURRENCIES = ("EUR", "EUR", "EUR", "USD", "USD", "GBP", "GBP", "JPY")
WELL_KNOWN = {"pay_1042": ("Ana Ruiz", Decimal("480.00"), "EUR")}
SEEDED = range(2000, 10_000)


@route(
    "POST",
    "/payments/refunds",
    required={"payment_id": text, "amount": amount, "currency": currency, "reason": text},
    needs_key=True,
)
def refund(store: Store, ask: Ask) -> Answer:
    return store.once("/payments/refunds", ask, lambda: _refund(store, ask))


def _refund(store: Store, ask: Ask) -> Answer:
    payment = payment_of(store, ask.fields["payment_id"])
    refunded, paid_in = ask.fields["amount"], payment["currency"]
    if ask.fields["currency"] != paid_in:
        raise Refused(422, "wrong_currency", f"{payment['id']} was paid in {paid_in}.")
    if not in_minor_digits(refunded, paid_in):
        raise Refused(422, "invalid_field", f"amount: has more decimals than {paid_in}.")
    if refunded > Decimal(payment["remaining"]):
        raise Refused(
            422,
            "more_than_remaining",
            f"Only {payment['remaining']} {paid_in} of {payment['id']} can still be refunded.",
        )
    refund_id = new_id("re")
    store.write(
        "INSERT INTO refunds (id, payment_id, amount, currency, reason, key)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        refund_id,
        payment["id"],
        str(refunded),
        paid_in,
        ask.fields["reason"],
        ask.key,
    )
    summary = f"Refunded {refunded} {paid_in} to {payment['customer']} for order {payment['order']}"
    store.record_effect("refund", payment["id"], ask.key, refund_id, summary)
    return Answer(_refund_of(store, refund_id, ask), 201)


@route("GET", "/payments/refunds", query=("key",))
def refunds_by_key(store: Store, ask: Ask) -> Answer:
    if "key" not in ask.query:
        raise Refused(400, "missing_key", "Send ?key=<the Idempotency-Key of the refund>.")
    rows = store.rows("SELECT * FROM refunds WHERE key = ?", ask.query["key"])
    return Answer({"refunds": [_refund_json(row, ask) for row in rows]})


@route("GET", "/payments/refunds/{refund_id}")
def read_refund(store: Store, ask: Ask) -> Answer:
    return Answer(_refund_of(store, ask.at["refund_id"], ask))


@route("POST", "/payments/refunds/{refund_id}/reversal")
def reverse(store: Store, ask: Ask) -> Answer:
    """Charge the refund back to the customer. Repeating it returns the same reversal."""
    refund = _refund_of(store, ask.at["refund_id"], ask)
    if not refund["reversal"]:
        reversal = new_id("rev")
        store.write("UPDATE refunds SET reversal = ? WHERE id = ?", reversal, refund["id"])
        summary = f"Reversed refund {refund['id']} of {refund['amount']} {refund['currency']}"
        store.record_effect("reversal", refund["payment_id"], "", reversal, summary)
        refund = _refund_of(store, refund["id"], ask)
    return Answer({"reversal": refund["reversal"], "refund": refund}, 201)


@route("GET", "/payments/{payment_id}")
def read_payment(store: Store, ask: Ask) -> Answer:
    return Answer(payment_of(store, ask.at["payment_id"]))


@route(
    "PUT",
    "/payments/{payment_id}",
    required={"customer": text, "amount": amount, "currency": currency},
)
def add_payment(store: Store, ask: Ask) -> Answer:
    """Add a payment, for tests and demos. ``/reset`` removes it."""
    payment_id = ask.at["payment_id"]
    if not re.fullmatch(r"pay_[a-zA-Z0-9_]{1,30}", payment_id):
        raise Refused(422, "invalid_id", "The id of a payment is pay_ and letters or digits.")
    if not in_minor_digits(ask.fields["amount"], ask.fields["currency"]):
        raise Refused(422, "invalid_field", "amount: has more decimals than the currency.")
    store.write(
        "INSERT OR REPLACE INTO payments (id, customer, amount, currency) VALUES (?, ?, ?, ?)",
        payment_id,
        ask.fields["customer"],
        str(ask.fields["amount"]),
        ask.fields["currency"],
    )
    return Answer(payment_of(store, payment_id), 201)


def payment_of(store: Store, payment_id: str) -> dict[str, Any]:
    customer, paid, paid_in = _known(store, payment_id)
    rows = store.rows(
        "SELECT amount FROM refunds WHERE payment_id = ? AND reversal = ''", payment_id
    )
    refunded = sum((Decimal(row["amount"]) for row in rows), Decimal(0))
    return {
        "id": payment_id,
        "customer": customer,
        "order": payment_id.removeprefix("pay_"),
        "currency": paid_in,
        "amount": money(paid, paid_in)["amount"],
        "refunded": money(refunded, paid_in)["amount"],
        "remaining": money(paid - refunded, paid_in)["amount"],
    }


def _known(store: Store, payment_id: str) -> tuple[str, Decimal, str]:
    if row := store.row("SELECT * FROM payments WHERE id = ?", payment_id):
        return row["customer"], Decimal(row["amount"]), row["currency"]
    if payment_id in WELL_KNOWN:
        return WELL_KNOWN[payment_id]
    number = re.fullmatch(r"pay_([0-9]{4})", payment_id)
    if number is None or int(number[1]) not in SEEDED:
        raise Refused(404, "no_such_payment", f"There is no payment {payment_id}.")
    paid_in = CURRENCIES[dice(payment_id, len(CURRENCIES), "currency")]
    minor = 4_000 + dice(payment_id, 90_000, "amount")
    paid = Decimal(minor) if paid_in == "JPY" else Decimal(minor) / 100
    return CUSTOMERS[dice(payment_id, len(CUSTOMERS), "customer")], paid, paid_in


def _refund_of(store: Store, refund_id: str, ask: Ask) -> dict[str, Any]:
    row = store.row("SELECT * FROM refunds WHERE id = ?", refund_id)
    if row is None:
        raise Refused(404, "no_such_refund", f"There is no refund {refund_id}.")
    return _refund_json(row, ask)


def _refund_json(row: sqlite3.Row, ask: Ask) -> dict[str, Any]:
    return {
        "id": row["id"],
        "payment_id": row["payment_id"],
        **money(Decimal(row["amount"]), row["currency"]),
        "reason": row["reason"],
        "key": row["key"],
        "status": "reversed" if row["reversal"] else "succeeded",
        "reversal": row["reversal"],
        "url": f"{ask.base_url}/receipts/{row['id']}",
    }
