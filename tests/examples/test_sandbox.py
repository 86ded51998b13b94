"""The sandbox is as strict, and as treacherous, as a real provider."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.sandbox.server import Sandbox
from examples.sandbox.store import Store

DAY = (datetime.now(UTC).date() + timedelta(days=30)).isoformat()
FLIGHT = f"QX412-{DAY}"
REFUND = {"payment_id": "pay_1042", "amount": "48.20", "currency": "EUR", "reason": "damaged"}


def refund(http: httpx.Client, key: str = "k1", **changes: Any) -> httpx.Response:
    return http.post(
        "/payments/refunds", json={**REFUND, **changes}, headers={"Idempotency-Key": key}
    )


def hold(http: httpx.Client, key: str = "h1", seconds: float = 60) -> httpx.Response:
    body = {"flight_id": FLIGHT, "passenger": "Ana Ruiz", "seconds": seconds}
    return http.post("/airline/holds", json=body, headers={"Idempotency-Key": key})


def book(http: httpx.Client, hold_id: str, key: str = "b1") -> httpx.Response:
    body = {"hold_id": hold_id}
    return http.post("/airline/bookings", json=body, headers={"Idempotency-Key": key})


def fault(http: httpx.Client, path: str, mode: str, **more: Any) -> None:
    http.post("/faults", json={"path": path, "mode": mode, **more}).raise_for_status()


def effects(http: httpx.Client) -> dict[str, Any]:
    return dict(http.get("/effects").json())


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# --- payments ---------------------------------------------------------------------------------


def test_a_repeated_refund_is_one_refund(http):
    first = refund(http)
    again = refund(http)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert effects(http) == {
        "total": 1,
        "by_kind": {"refund": 1},
        "by_subject": {"refund:pay_1042": 1},
        "by_key": {"k1": 1},
        "live_holds": 0,
        "holds": [],
    }
    assert http.get("/payments/refunds", params={"key": "k1"}).json() == {"refunds": [first.json()]}
    assert http.get("/payments/refunds", params={"key": "k2"}).json() == {"refunds": []}


def test_one_key_names_one_refund_only(http):
    refund(http)

    assert code(refund(http, amount="48.30")) == (409, "idempotency_key_reused")
    assert effects(http)["total"] == 1


def test_many_copies_at_once_have_one_effect(http):
    threads = [threading.Thread(target=refund, args=(http,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert effects(http)["by_kind"] == {"refund": 1}


def test_no_more_is_refunded_than_was_paid(http):
    assert refund(http, key="a", amount="400.00").status_code == 201
    assert code(refund(http, key="b", amount="80.01")) == (422, "more_than_remaining")
    assert refund(http, key="b", amount="80.00").status_code == 201
    assert http.get("/payments/pay_1042").json() == {
        "id": "pay_1042",
        "customer": "Ana Ruiz",
        "order": "1042",
        "currency": "EUR",
        "amount": "480.00",
        "refunded": "480.00",
        "remaining": "0.00",
    }


def test_a_refund_has_one_reversal_and_the_key_stays_used(http):
    refund_id = refund(http).json()["id"]

    first = http.post(f"/payments/refunds/{refund_id}/reversal").json()
    again = http.post(f"/payments/refunds/{refund_id}/reversal").json()

    assert first == again
    assert first["refund"]["status"] == "reversed"
    assert http.get("/payments/pay_1042").json()["remaining"] == "480.00"
    assert refund(http).json()["id"] == refund_id
    assert effects(http)["by_kind"] == {"refund": 1, "reversal": 1}
    assert code(http.post("/payments/refunds/re_nothing/reversal")) == (404, "no_such_refund")


def test_payments_are_made_up_but_stay_the_same(http):
    payments = [http.get(f"/payments/pay_{number}").json() for number in range(2000, 2060)]

    assert payments == [http.get(f"/payments/pay_{number}").json() for number in range(2000, 2060)]
    assert {payment["currency"] for payment in payments} == {"EUR", "USD", "GBP", "JPY"}
    assert all("." not in p["amount"] for p in payments if p["currency"] == "JPY")
    assert code(http.get("/payments/pay_x")) == (404, "no_such_payment")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"amount": 48.2}, (422, "invalid_field")),
        ({"amount": "-1"}, (422, "invalid_field")),
        ({"amount": "0.00"}, (422, "invalid_field")),
        ({"amount": "1.001"}, (422, "invalid_field")),
        ({"amount": "NaN"}, (422, "invalid_field")),
        ({"currency": "XXX"}, (422, "invalid_field")),
        ({"currency": ["EUR"]}, (422, "invalid_field")),
        ({"currency": "USD"}, (422, "wrong_currency")),
        ({"reason": " "}, (422, "invalid_field")),
        ({"payment_id": 1042}, (422, "invalid_field")),
        ({"payment_id": "pay_0"}, (404, "no_such_payment")),
        ({"note": "x"}, (422, "unknown_field")),
    ],
)
def test_a_refund_that_is_not_exactly_right_is_refused(http, changes, expected):
    assert code(refund(http, **changes)) == expected
    assert effects(http)["total"] == 0


def test_requests_are_read_strictly(http):
    keyed = {"Idempotency-Key": "k"}
    typed = {**keyed, "Content-Type": "application/json"}
    path = "/payments/refunds"

    assert code(http.post(path, json=REFUND)) == (400, "idempotency_key_missing")
    assert code(http.post(path, data=REFUND, headers=keyed)) == (415, "not_json")
    assert code(http.post(path, content="{", headers=typed)) == (400, "not_json")
    assert code(http.post(path, content="[]", headers=typed)) == (422, "invalid_request")
    assert code(http.post(path, content="x" * 70_000, headers=typed)) == (413, "too_large")
    assert code(http.get(path)) == (400, "missing_key")
    assert code(http.get(path, params={"key": "k", "other": "1"})) == (400, "unknown_query")
    assert code(http.patch(path)) == (405, "method_not_allowed")
    assert code(http.get("/elsewhere")) == (404, "not_found")
    assert effects(http)["total"] == 0


# --- airline ----------------------------------------------------------------------------------


def test_flights_have_prices_that_can_be_set(http):
    query = {"origin": "Paris", "destination": "lisbon", "date": DAY}
    found = http.get("/airline/flights", params=query).json()["flights"]
    assert [flight["number"] for flight in found] == ["QX412", "QX418"]

    http.put(f"/airline/flights/{FLIGHT}/price", json={"amount": "312.00"}).raise_for_status()

    price = {"amount": "312.00", "currency": "EUR"}
    assert http.get(f"/airline/flights/{FLIGHT}").json()["price"] == price
    assert code(http.get("/airline/flights", params={"origin": "Paris"})) == (400, "missing_query")
    assert code(http.get("/airline/flights/QX412-someday")) == (404, "no_such_day")


def test_a_hold_keeps_seat_and_price(http):
    held = hold(http).json()
    http.put(f"/airline/flights/{FLIGHT}/price", json={"amount": "999.00"}).raise_for_status()

    booking = book(http, held["hold_id"]).json()

    assert booking["price"] == held["price"]
    assert http.get(f"/airline/flights/{FLIGHT}").json()["seats_left"] == 8
    assert effects(http)["by_subject"] == {f"booking:{FLIGHT}:Ana Ruiz": 1}
    assert http.get("/airline/bookings", params={"key": "b1"}).json() == {"bookings": [booking]}


def test_a_hold_is_taken_once_per_key(http):
    assert hold(http).json() == hold(http).json()
    assert effects(http)["live_holds"] == 1
    assert effects(http)["total"] == 0


def test_a_lapsed_hold_books_nothing(http):
    held = hold(http, seconds=0.05).json()
    time.sleep(0.1)

    assert code(book(http, held["hold_id"])) == (409, "hold_lapsed")
    assert effects(http)["live_holds"] == 0
    assert effects(http)["total"] == 0


def test_a_booking_is_made_once_also_when_its_hold_is_gone(http):
    held = hold(http).json()
    first = book(http, held["hold_id"]).json()

    assert book(http, held["hold_id"]).json() == first
    assert code(book(http, held["hold_id"], key="b2")) == (409, "hold_lapsed")
    assert effects(http)["by_kind"] == {"booking": 1}


def test_letting_go_always_succeeds(http):
    held = hold(http).json()["hold_id"]

    answers = [http.delete(f"/airline/holds/{name}") for name in (held, held, "hold_unknown")]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert [answer.json()["was_held"] for answer in answers] == [True, False, False]
    assert effects(http)["live_holds"] == 0


def test_letting_go_of_a_used_hold_does_not_cancel_the_booking(http):
    held = hold(http).json()["hold_id"]
    ref = book(http, held).json()["ref"]

    http.delete(f"/airline/holds/{held}")

    assert http.get(f"/airline/bookings/{ref}").json()["status"] == "confirmed"


def test_a_booking_is_canceled_once(http):
    ref = book(http, hold(http).json()["hold_id"]).json()["ref"]

    first = http.delete(f"/airline/bookings/{ref}").json()
    again = http.delete(f"/airline/bookings/{ref}").json()

    assert first == again
    assert first["status"] == "canceled"
    assert effects(http)["by_kind"] == {"booking": 1, "cancellation": 1}
    assert http.get(f"/airline/flights/{FLIGHT}").json()["seats_left"] == 9
    assert code(http.delete("/airline/bookings/bk_nothing")) == (404, "no_such_booking")


def test_a_full_or_departed_flight_holds_nothing(http):
    for number in range(9):
        assert hold(http, key=f"h{number}").status_code == 201
    assert code(hold(http, key="one too many")) == (409, "sold_out")

    gone = {"flight_id": "QX412-2020-01-01", "passenger": "Ana Ruiz", "seconds": 60}
    answer = http.post("/airline/holds", json=gone, headers={"Idempotency-Key": "h"})
    assert code(answer) == (422, "departed")


# --- cloud ------------------------------------------------------------------------------------


def test_the_cloud_acts_on_every_call(http):
    body = {"reason": "idle", "reference": "tx-1"}
    answers = [
        http.post(
            "/cloud/instances/i-4207/termination", json=body, headers={"Idempotency-Key": "k"}
        )
        for _ in range(2)
    ]

    instance = http.get("/cloud/instances/i-4207").json()
    assert effects(http)["by_subject"] == {"termination:i-4207": 2}
    assert instance["state"] == "terminated"
    receipts = [answer.json()["termination"]["receipt"] for answer in answers]
    assert [item["receipt"] for item in instance["terminations"]] == receipts
    assert code(http.get("/cloud/instances/web")) == (404, "no_such_instance")


# --- faults -----------------------------------------------------------------------------------


def test_hanging_up_after_work_leaves_the_effect(http):
    fault(http, "/payments/refunds", "drop_after_work")

    with pytest.raises(httpx.RemoteProtocolError):
        refund(http)

    assert effects(http)["by_kind"] == {"refund": 1}
    assert refund(http).headers["Idempotent-Replayed"] == "true"


def test_hanging_up_before_work_leaves_nothing(http):
    fault(http, "/payments/refunds", "drop_before_work", times=2)

    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError):
            refund(http)

    assert effects(http)["total"] == 0
    assert refund(http).status_code == 201


def test_a_500_may_come_before_or_after_the_work(http):
    fault(http, "/payments/refunds", "error_500_before")
    fault(http, "/payments/refunds", "error_500_after")

    assert refund(http).status_code == 500
    assert effects(http)["total"] == 0
    assert refund(http).status_code == 500
    assert effects(http)["total"] == 1


def test_a_late_answer_comes_after_the_work(http):
    fault(http, "/payments/refunds", "delay", seconds=0.6)

    with pytest.raises(httpx.ReadTimeout):
        http.post("/payments/refunds", json=REFUND, headers={"Idempotency-Key": "k1"}, timeout=0.2)

    assert effects(http)["total"] == 1


def test_a_slow_request_still_arrives_after_the_caller_has_left(http):
    fault(http, "/cloud/instances/*", "delay_before_work", seconds=0.4)

    with pytest.raises(httpx.ReadTimeout):
        http.post("/cloud/instances/i-4207/termination", json={"reason": "idle"}, timeout=0.1)

    assert effects(http)["total"] == 0
    deadline = time.monotonic() + 5
    while effects(http)["total"] == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert effects(http)["total"] == 1


def test_faults_hit_only_what_they_name(http):
    fault(http, "/payments/refunds", "drop_before_work", method="GET")

    assert refund(http).status_code == 201
    with pytest.raises(httpx.RemoteProtocolError):
        http.get("/payments/refunds", params={"key": "k1"})

    fault(http, "*", "drop_before_work", times=100, method="*")
    assert effects(http)["total"] == 1
    assert len(http.get("/faults").json()["faults"]) == 1
    http.delete("/faults")
    assert http.get("/payments/pay_1042").status_code == 200


def test_nonsense_faults_are_refused(http):
    for body in (
        {"path": "/x", "mode": "explode"},
        {"path": "/x", "mode": "delay"},
        {"path": "/x", "mode": "drop_after_work", "seconds": 1},
        {"path": "/x", "mode": "delay", "seconds": -1},
        {"path": "/x", "mode": "delay", "seconds": 1, "times": True},
    ):
        assert code(http.post("/faults", json=body)) == (422, "invalid_field")


# --- what it remembers --------------------------------------------------------------------------


def test_receipts_have_pages_and_names_are_escaped(http):
    body = {"flight_id": FLIGHT, "passenger": "<b>Ana</b>", "seconds": 60}
    held = http.post("/airline/holds", json=body, headers={"Idempotency-Key": "h"}).json()
    assert "&lt;b&gt;Ana&lt;/b&gt;" in http.get("/").text

    booking = book(http, held["hold_id"]).json()

    for page in (httpx.get(booking["url"], timeout=5), http.get("/")):
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert booking["ref"] in page.text
        assert "<b>" not in page.text
    assert http.get("/receipts/bk_nothing").status_code == 404


def test_a_killed_process_forgets_nothing(tmp_path):
    """Also the way that `make demo` starts it: a process of its own that prints its address."""
    data = tmp_path / "world.sqlite"
    with running(data) as (process, url):
        with httpx.Client(base_url=url) as http:
            first = refund(http).json()
        process.kill()
        process.wait()

    with running(data) as (process, url), httpx.Client(base_url=url) as http:
        again = refund(http).json()
        assert {**again, "url": ""} == {**first, "url": ""}
        assert effects(http)["by_kind"] == {"refund": 1}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


class running:
    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "examples.sandbox", "--port", "0", "--data", str(data)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> tuple[subprocess.Popen[str], str]:
        assert self.process.stdout is not None
        return self.process, self.process.stdout.readline().split()[-1]

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_two_sandboxes_do_not_share_a_world():
    one, other = Sandbox().in_background(), Sandbox().in_background()
    try:
        with httpx.Client(base_url=one.url) as http:
            refund(http)
        with httpx.Client(base_url=other.url) as http:
            assert effects(http)["total"] == 0
    finally:
        one.stop()
        other.stop()


def test_work_that_fails_leaves_no_trace():
    store = Store()

    def half_done() -> None:
        with store.work():
            store.record_effect("refund", "pay_1042", "k", "re_1", "Refunded")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_done()

    with store.work():
        assert store.rows("SELECT * FROM effects") == []
    store.close()


def test_a_file_of_another_version_starts_afresh(tmp_path):
    path = str(tmp_path / "world.sqlite")
    with closing(sqlite3.connect(path)) as old:
        old.execute("CREATE TABLE effects (kind TEXT)")

    store = Store(path)
    with store.work():
        store.record_effect("refund", "pay_1042", "k", "re_1", "Refunded")
    store.close()

    store = Store(path)
    with store.work():
        assert len(store.rows("SELECT * FROM effects")) == 1
    store.close()


# --- what it does not know -------------------------------------------------------------------


@pytest.mark.parametrize(
    "payment_id", ["pay_1999", "pay_10000", "pay_1043", "pay_02000", "pay_999999", "pay_2000a"]
)
def test_a_payment_that_nobody_made_is_refused(http, payment_id):
    """However likely it looks: an id that a model made up moves no money."""
    answer = http.get(f"/payments/{payment_id}")
    refund = http.post(
        "/payments/refunds",
        json={**REFUND, "payment_id": payment_id},
        headers={"Idempotency-Key": payment_id},
    )

    for refused in (answer, refund):
        assert refused.status_code == 404
        assert refused.json()["error"]["message"] == f"There is no payment {payment_id}."
    assert effects(http)["total"] == 0


@pytest.mark.parametrize("instance_id", ["i-3fff", "i-5000", "i-04207", "i-0a1b2c3d"])
def test_an_instance_that_nobody_started_is_refused(http, instance_id):
    address = f"/cloud/instances/{instance_id}"

    assert http.get(address).status_code == 404
    assert http.post(f"{address}/termination", json={"reason": "idle"}).status_code == 404


def test_payments_and_instances_can_be_added_until_the_next_reset(http):
    paid = {"customer": "Ana Ruiz", "amount": "12.50", "currency": "EUR"}
    assert http.put("/payments/pay_mine", json=paid).status_code == 201
    assert http.put("/cloud/instances/i-0a1b2c3d").status_code == 201

    assert http.get("/payments/pay_mine").json()["remaining"] == "12.50"
    assert http.get("/cloud/instances/i-0a1b2c3d").json()["state"] == "running"

    http.post("/reset").raise_for_status()
    assert http.get("/payments/pay_mine").status_code == 404
    assert http.get("/cloud/instances/i-0a1b2c3d").status_code == 404
