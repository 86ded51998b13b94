"""Signing in: who fails too often waits, and a storm of sign-ins stops nobody else."""

from __future__ import annotations

import pytest
from django.test import Client

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
