"""Addresses of keys that change, hang, lie, or lead elsewhere."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection

from approvals.oauth.workloads import keys
from ledger.models import AgentToken
from tests.oauth.workloads.conftest import Key, exchange
from tests.processes import until

pytestmark = pytest.mark.django_db


def later(seconds: float) -> None:
    """Whatever was read or tried is older by so much."""
    for known in keys._addresses.values():
        known.tried_at -= seconds
        if known.read_at is not None:
            known.read_at -= seconds


@pytest.fixture
def ready(issuer_with_address, key):
    """What a process loads once is there: authorities, and the addresses of the desk."""
    assert exchange(key.token()).status_code == 200
    keys.forget()


def test_keys_are_read_once_for_many_tokens(issuer_with_address, key, key_server):
    answers = [exchange(key.token()).status_code for _ in range(5)]

    assert answers == [200] * 5
    assert key_server.asked == 1


def test_a_new_key_counts_as_soon_as_a_token_names_it(issuer_with_address, key, key_server):
    new = Key("two")
    assert exchange(key.token()).status_code == 200
    key_server.serve(key, new)

    at_once = exchange(new.token()).status_code
    later(31)
    in_time = exchange(new.token()).status_code

    assert (at_once, in_time) == (400, 200)
    assert key_server.asked == 2


def test_a_flood_of_unknown_keys_asks_twice_a_minute_at_most(issuer_with_address, key, key_server):
    strange = [Key(str(number)).token() for number in range(10)]
    exchange(key.token())

    later(31)
    answers = {exchange(token).status_code for token in strange}

    assert answers == {400}
    assert key_server.asked == 2
    assert exchange(key.token()).status_code == 200


def test_a_key_that_was_withdrawn_counts_five_minutes_at_most(issuer_with_address, key, key_server):
    assert exchange(key.token()).status_code == 200
    key_server.serve(Key("two"))

    later(301)

    assert exchange(key.token()).status_code == 400


@pytest.mark.slow
def test_an_address_that_hangs_costs_five_seconds_once(ready, key, key_server):
    key_server.may_answer.clear()
    key_server.asked = 0
    began = time.monotonic()

    answers = [exchange(key.token()) for _ in range(4)]

    assert {answer.status_code for answer in answers} == {503}
    assert answers[0].json()["error"] == "temporarily_unavailable"
    assert answers[0]["Retry-After"]
    assert time.monotonic() - began < 9
    assert key_server.asked == 1
    assert AgentToken.objects.count() == 1  # that of before


def test_while_the_address_fails_known_keys_count_for_an_hour(issuer_with_address, key, key_server):
    assert exchange(key.token()).status_code == 200
    key_server.answer = (500, {}, b"")

    later(1800)
    within_the_hour = exchange(key.token()).status_code
    later(1900)

    assert within_the_hour == 200
    assert exchange(key.token()).status_code == 503


@pytest.mark.django_db(transaction=True)
def test_while_one_reads_others_do_not_wait_long(ready, key, key_server):
    key_server.may_answer.clear()
    key_server.asked = 0
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(exchange(key.token()).status_code)
        connection.close()

    first = threading.Thread(target=ask)
    first.start()
    until(lambda: key_server.asked, what="nobody read the keys")
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
