"""The airline: changing fares, holds of seats, bookings. Every route is flown every day."""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from examples.sandbox.store import Store, new_id
from examples.sandbox.wire import (
    MINOR_DIGITS,
    Answer,
    Ask,
    Refused,
    amount,
    dice,
    in_minor_digits,
    money,
    route,
    seconds,
    text,
)

SEATS = 9  # in one fare of one flight


class Line(NamedTuple):
    """One flight number of the timetable."""

    number: str
    origin: str
    destination: str
    departs: str
    arrives: str
    fare: int
    currency: str


LINES = (
    Line("QX412", "Paris", "Lisbon", "09:40", "11:15", 189, "EUR"),
    Line("QX418", "Paris", "Lisbon", "18:05", "19:40", 156, "EUR"),
    Line("QX101", "Madrid", "Berlin", "07:20", "10:25", 214, "EUR"),
    Line("QX107", "Madrid", "Berlin", "15:50", "18:55", 178, "EUR"),
    Line("QX230", "Frankfurt", "Rome", "12:10", "14:00", 167, "EUR"),
    Line("QX305", "London", "Edinburgh", "08:15", "09:35", 98, "GBP"),
    Line("QX318", "London", "Dublin", "17:30", "18:55", 112, "GBP"),
    Line("QX520", "New York", "Chicago", "10:00", "11:45", 248, "USD"),
    Line("QX533", "New York", "San Francisco", "08:30", "12:05", 389, "USD"),
    Line("QX701", "Tokyo", "Osaka", "09:00", "10:15", 18_400, "JPY"),
    Line("QX716", "Tokyo", "Sapporo", "13:30", "15:05", 24_900, "JPY"),
)


@route("GET", "/airline/flights", query=("origin", "destination", "date"))
def find_flights(store: Store, ask: Ask) -> Answer:
    if set(ask.query) != {"origin", "destination", "date"}:
        raise Refused(400, "missing_query", "Send ?origin=…&destination=…&date=YYYY-MM-DD.")
    day = _day(ask.query["date"], 400)
    cities = (ask.query["origin"].lower(), ask.query["destination"].lower())
    lines = [line for line in LINES if (line.origin.lower(), line.destination.lower()) == cities]
    return Answer({"flights": [_flight(store, line, day) for line in lines]})


@route("GET", "/airline/flights/{flight_id}")
def read_flight(store: Store, ask: Ask) -> Answer:
    return Answer(flight_of(store, ask.at["flight_id"]))


@route("PUT", "/airline/flights/{flight_id}/price", required={"amount": amount})
def set_price(store: Store, ask: Ask) -> Answer:
    """Change the fare of a flight. Held seats keep their price."""
    flight = flight_of(store, ask.at["flight_id"])
    if not in_minor_digits(ask.fields["amount"], flight["price"]["currency"]):
        raise Refused(422, "invalid_field", "amount: has more decimals than the currency.")
    store.write(
        "INSERT INTO fares (flight_id, amount) VALUES (?, ?)"
        " ON CONFLICT (flight_id) DO UPDATE SET amount = excluded.amount",
        flight["flight_id"],
        str(ask.fields["amount"]),
    )
    return Answer(flight_of(store, flight["flight_id"]))


@route(
    "POST",
    "/airline/holds",
    required={"flight_id": text, "passenger": text, "seconds": seconds},
    needs_key=True,
)
def hold(store: Store, ask: Ask) -> Answer:
    return store.once("/airline/holds", ask, lambda: _hold(store, ask))


def _hold(store: Store, ask: Ask) -> Answer:
    flight = flight_of(store, ask.fields["flight_id"])
    if date.fromisoformat(flight["date"]) < datetime.now(UTC).date():
        raise Refused(422, "departed", f"{flight['flight_id']} has departed.")
    if not flight["seats_left"]:
        raise Refused(409, "sold_out", f"{flight['flight_id']} is sold out.")
    hold_id, price = new_id("hold"), flight["price"]
    expires_at = time.time() + ask.fields["seconds"]
    store.write(
        "INSERT INTO holds (id, flight_id, passenger, amount, currency, expires_at, state)"
        " VALUES (?, ?, ?, ?, ?, ?, 'live')",
        hold_id,
        flight["flight_id"],
        ask.fields["passenger"],
        price["amount"],
        price["currency"],
        expires_at,
    )
    body = {
        "hold_id": hold_id,
        "expires_at": datetime.fromtimestamp(expires_at, UTC).isoformat(),
        "passenger": ask.fields["passenger"],
        "price": price,
        "flight": flight_of(store, flight["flight_id"]),
    }
    return Answer(body, 201)


@route("DELETE", "/airline/holds/{hold_id}")
def release(store: Store, ask: Ask) -> Answer:
    """Release a hold. Releasing a hold that does not exist succeeds as well."""
    hold_id = ask.at["hold_id"]
    row = store.row("SELECT * FROM holds WHERE id = ? AND state = 'live'", hold_id)
    if row is not None:
        store.write("UPDATE holds SET state = 'released' WHERE id = ?", hold_id)
    return Answer({"hold_id": hold_id, "was_held": row is not None and _is_live(row)})


@route(
    "POST",
    "/airline/bookings",
    required={"hold_id": text},
    needs_key=True,
)
def book(store: Store, ask: Ask) -> Answer:
    return store.once("/airline/bookings", ask, lambda: _book(store, ask))


def _book(store: Store, ask: Ask) -> Answer:
    held = store.row("SELECT * FROM holds WHERE id = ?", ask.fields["hold_id"])
    if held is None:
        raise Refused(404, "no_such_hold", f"There is no hold {ask.fields['hold_id']}.")
    if not _is_live(held):
        raise Refused(409, "hold_lapsed", "The hold no longer exists: expired, released or used.")
    ref = new_id("bk")
    store.write("UPDATE holds SET state = 'used' WHERE id = ?", held["id"])
    store.write(
        "INSERT INTO bookings (ref, hold_id, flight_id, passenger, amount, currency, key)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        ref,
        held["id"],
        held["flight_id"],
        held["passenger"],
        held["amount"],
        held["currency"],
        ask.key,
    )
    summary = (
        f"Booked {held['flight_id']} for {held['passenger']} at {held['amount']} {held['currency']}"
    )
    store.record_effect(
        "booking", f"{held['flight_id']}:{held['passenger']}", ask.key, ref, summary
    )
    return Answer(_booking_of(store, ref, ask), 201)


@route("GET", "/airline/bookings", query=("key",))
def bookings_by_key(store: Store, ask: Ask) -> Answer:
    if "key" not in ask.query:
        raise Refused(400, "missing_key", "Send ?key=<the Idempotency-Key of the booking>.")
    rows = store.rows("SELECT * FROM bookings WHERE key = ?", ask.query["key"])
    return Answer({"bookings": [_booking_json(row, ask) for row in rows]})


@route("GET", "/airline/bookings/{ref}")
def read_booking(store: Store, ask: Ask) -> Answer:
    return Answer(_booking_of(store, ask.at["ref"], ask))


@route("DELETE", "/airline/bookings/{ref}")
def cancel_booking(store: Store, ask: Ask) -> Answer:
    """Cancel for a full refund of the fare. Repeating it returns the same cancellation."""
    booking = _booking_of(store, ask.at["ref"], ask)
    if not booking["cancellation"]:
        cancellation = new_id("cx")
        store.write(
            "UPDATE bookings SET cancellation = ? WHERE ref = ?", cancellation, booking["ref"]
        )
        subject = f"{booking['flight_id']}:{booking['passenger']}"
        summary = f"Canceled booking {booking['ref']} of {booking['passenger']}"
        store.record_effect("cancellation", subject, "", cancellation, summary)
        booking = _booking_of(store, booking["ref"], ask)
    return Answer(booking)


def flight_of(store: Store, flight_id: str) -> dict[str, Any]:
    """The flight of an id such as ``QX412-2026-12-04`` (number and day). Raises ``Refused``."""
    number, _, day = flight_id.partition("-")
    for line in LINES:
        if line.number == number:
            return _flight(store, line, _day(day, 404))
    raise Refused(404, "no_such_flight", f"There is no flight {flight_id}.")


def _flight(store: Store, line: Line, day: date) -> dict[str, Any]:
    flight_id = f"{line.number}-{day.isoformat()}"
    return {
        "flight_id": flight_id,
        "number": line.number,
        "origin": line.origin,
        "destination": line.destination,
        "date": day.isoformat(),
        "departs": line.departs,
        "arrives": line.arrives,
        "price": money(_fare(store, line, flight_id), line.currency),
        "seats_left": SEATS - _taken(store, flight_id),
    }


def _fare(store: Store, line: Line, flight_id: str) -> Decimal:
    """The fare that was set, else the usual one, which differs from day to day."""
    row = store.row("SELECT amount FROM fares WHERE flight_id = ?", flight_id)
    if row is not None:
        return Decimal(row["amount"])
    percent = 85 + dice(flight_id, 41, "fare")
    return round(Decimal(line.fare * percent) / 100, MINOR_DIGITS[line.currency])


def _taken(store: Store, flight_id: str) -> int:
    row = store.row(
        "SELECT (SELECT count(*) FROM holds WHERE flight_id = ?1 AND state = 'live'"
        " AND expires_at > ?2)"
        " + (SELECT count(*) FROM bookings WHERE flight_id = ?1 AND cancellation = '') AS taken",
        flight_id,
        time.time(),
    )
    return int(row["taken"]) if row else 0


def _is_live(hold: sqlite3.Row) -> bool:
    return bool(hold["state"] == "live" and hold["expires_at"] > time.time())


def _day(written: str, status: int) -> date:
    try:
        return datetime.strptime(written, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise Refused(
            status, "no_such_day", f"{written!r:.40} is not a day (YYYY-MM-DD)."
        ) from None


def _booking_of(store: Store, ref: str, ask: Ask) -> dict[str, Any]:
    row = store.row("SELECT * FROM bookings WHERE ref = ?", ref)
    if row is None:
        raise Refused(404, "no_such_booking", f"There is no booking {ref}.")
    return _booking_json(row, ask)


def _booking_json(row: sqlite3.Row, ask: Ask) -> dict[str, Any]:
    return {
        "ref": row["ref"],
        "flight_id": row["flight_id"],
        "passenger": row["passenger"],
        "price": money(Decimal(row["amount"]), row["currency"]),
        "hold_id": row["hold_id"],
        "key": row["key"],
        "status": "canceled" if row["cancellation"] else "confirmed",
        "cancellation": row["cancellation"],
        "url": f"{ask.base_url}/receipts/{row['ref']}",
    }
