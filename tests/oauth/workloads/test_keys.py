"""Addresses of keys that change, hang, lie, or lead elsewhere."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection

from approvals.oauth.workloads import keys
from ledger.models import AgentToken
from tests.oauth.workloads.conftest import Key, exchange

pytestmark = pytest.mark.django_db


@pytest.fixture
def hours_later(monkeypatch):
    """The clock of the process, set on by hand."""
    ahead = [0.0]
    clock = time.monotonic
    monkeypatch.setattr(keys.time, "monotonic", lambda: clock() + ahead[0])

    def set_on(seconds: float) -> None:
        ahead[0] += seconds

    return set_on


def test_keys_are_read_once_for_many_tokens(issuer_with_address, key, key_server):
    answers = [exchange(key.token()).status_code for _ in range(5)]

    assert answers == [200] * 5
    assert key_server.asked == 1


def test_a_new_key_counts_as_soon_as_a_token_names_it(
    issuer_with_address, key, key_server, hours_later
):
    new = Key("two")
    assert exchange(key.token()).status_code == 200
    key_server.serve(key, new)

    at_once = exchange(new.token()).status_code
    hours_later(31)
    later = exchange(new.token()).status_code

    assert (at_once, later) == (400, 200)
    assert key_server.asked == 2


def test_a_flood_of_unknown_keys_asks_twice_a_minute_at_most(
    issuer_with_address, key, key_server, hours_later
):
    strange = [Key(str(number)).token() for number in range(10)]
    exchange(key.token())

    hours_later(31)
    answers = {exchange(token).status_code for token in strange}

    assert answers == {400}
    assert key_server.asked == 2
    assert exchange(key.token()).status_code == 200


def test_a_key_that_was_withdrawn_counts_five_minutes_at_most(
    issuer_with_address, key, key_server, hours_later
):
    assert exchange(key.token()).status_code == 200
    key_server.serve(Key("two"))

    hours_later(301)

    assert exchange(key.token()).status_code == 400


def test_an_address_that_hangs_costs_five_seconds_once(issuer_with_address, key, key_server):
    key_server.may_answer.clear()
    began = time.monotonic()

    answers = [exchange(key.token()) for _ in range(4)]

    assert {answer.status_code for answer in answers} == {503}
    assert answers[0].json()["error"] == "temporarily_unavailable"
    assert answers[0]["Retry-After"]
    assert time.monotonic() - began < 9
    assert key_server.asked == 1
    assert not AgentToken.objects.exists()


def test_while_the_address_hangs_known_keys_count_for_an_hour(
    issuer_with_address, key, key_server, hours_later
):
    assert exchange(key.token()).status_code == 200
    key_server.answer = (500, {}, b"")

    hours_later(1800)
    within_the_hour = exchange(key.token()).status_code
    hours_later(1900)

    assert within_the_hour == 200
    assert exchange(key.token()).status_code == 503


@pytest.mark.django_db(transaction=True)
def test_while_one_reads_others_do_not_wait_long(issuer_with_address, key, key_server):
    key_server.may_answer.clear()
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(exchange(key.token()).status_code)
        connection.close()

    first = threading.Thread(target=ask)
    first.start()
    while not key_server.asked:
        assert first.is_alive()
    began = time.monotonic()
    other = exchange(key.token()).status_code
    waited_s = time.monotonic() - began
    key_server.may_answer.set()
    first.join()

    assert (other, statuses) == (503, [200])
    assert waited_s < 4


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "/keys"}, b""),
        (200, {}, b'{"keys": ["' + b"x" * 300_000 + b'"]}'),
        (200, {}, b'{"keys": ["x"]}'),
        (200, {}, b'{"keys": {}}'),
        (200, {}, b"[" * 100_000),
        (200, {}, b"<html>"),
        (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"),
        (200, {}, b'{"keys": [' + b",".join([b"{}"] * 101) + b"]}"),
        (404, {}, b""),
    ],
)
def test_an_answer_that_is_no_key_set_gives_no_token(issuer_with_address, key, key_server, answer):
    key_server.answer = answer

    assert exchange(key.token()).status_code == 503
    assert key_server.asked == 1


def test_an_address_of_our_own_network_is_never_asked(
    issuer_with_address, key, key_server, settings
):
    settings.WEBHOOK_NETWORKS = []

    assert exchange(key.token()).status_code == 503
    assert key_server.asked == 0
