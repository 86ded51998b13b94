"""Signing in: who fails too often waits, and a storm of sign-ins stops nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import httpx
import pytest
from django.test import Client

from approvals import lanes
from approvals.http.admission.long_polls import network_of_peer
from approvals.http.admission.pages import Pages

pytestmark = pytest.mark.django_db


def sign_in(username: str, password: str, address: str = "203.0.113.7"):
    return Client().post(
        "/sign-in/", {"username": username, "password": password}, REMOTE_ADDR=address
    )


def test_an_account_that_fails_again_and_again_has_to_wait_even_with_the_right_password(alice_user):
    for _ in range(5):
        assert sign_in("alice", "wrong").status_code == 200

    answer = sign_in("alice", "alice")

    assert (answer.status_code, int(answer["Retry-After"]) > 0) == (429, True)
    assert "Your password was not checked." in answer.content.decode()


def test_failures_from_elsewhere_do_not_lock_a_person_out(alice_user):
    for _ in range(6):
        sign_in("alice", "wrong")

    assert sign_in("alice", "alice", address="198.51.100.2").status_code == 302


def test_an_address_that_tries_many_accounts_has_to_wait(alice_user):
    answers = [sign_in(f"user{number}", "wrong").status_code for number in range(21)]

    assert answers == [200] * 20 + [429]


def test_whoever_signs_in_rightly_is_never_made_to_wait(alice_user):
    assert {sign_in("alice", "alice").status_code for _ in range(30)} == {302}


def test_the_admin_has_no_sign_in_of_its_own_that_could_be_tried_instead(alice_user, as_alice):
    stranger = Client().get("/admin/login/?next=/admin/ledger/")

    assert stranger["Location"] == "/sign-in/?next=%2Fadmin%2Fledger%2F"
    assert as_alice.get("/admin/login/").status_code == 403


# --- whose turn it is -----------------------------------------------------------------------------


class Hashing:
    """Stands for the check of a password: takes until it is released."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def __call__(self, environ: Any, start: Any) -> list[bytes]:
        self.begun.append(environ["REMOTE_ADDR"])
        self.may_end.wait(20)
        start("200 OK", [])
        return [b""]


def test_the_sign_ins_of_one_address_wait_for_each_other_and_another_address_for_none():
    hashing = Hashing()
    sign_ins = Pages(
        hashing, lanes.hashing, largest_body=1000, body_within_s=5, whose=network_of_peer
    )

    async def post(address: str) -> int:
        transport = httpx.ASGITransport(sign_ins, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return (await http.post("/sign-in/")).status_code

    async def storm() -> list[int]:
        many = [asyncio.create_task(post(f"2001:db8::{number}")) for number in range(30)]
        while not hashing.begun:
            await asyncio.sleep(0.01)
        other = asyncio.create_task(post("203.0.113.9"))
        while len(hashing.begun) < 2:
            await asyncio.sleep(0.01)
        assert hashing.begun[1] == "203.0.113.9", "of one /64 only one is looked at"
        hashing.may_end.set()
        return [await other, *await asyncio.gather(*many)]

    statuses = asyncio.run(asyncio.wait_for(storm(), 30))

    assert statuses[0] == 200
    assert Counter(statuses[1:]) == {200: 10, 503: 20}
