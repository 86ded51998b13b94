"""What is in doubt says what was tried, and to each reader who looks it up."""

from __future__ import annotations

import pytest

from ledger.models import Transaction

pytestmark = pytest.mark.django_db


@pytest.fixture
def in_doubt(approved):
    def make(attempts: int) -> str:
        row = approved("pay")
        Transaction.objects.filter(pk=row.pk).update(state="in_doubt", attempts=attempts)
        return f"/transactions/{row.pk}/"

    return make


def words(person, address: str) -> str:
    return " ".join(person.get(address).content.decode().split())


def test_what_was_tried_again_is_not_said_to_be_unrepeated(in_doubt, as_alice):
    once, thrice = words(as_alice, in_doubt(1)), words(as_alice, in_doubt(3))

    assert "It was neither repeated nor rolled back." in once
    assert "called the tool 3 times with the same operation key" in thrice
    assert "neither repeated" not in thrice


def test_only_who_can_say_what_happened_is_asked_to(in_doubt, as_alice, as_olga):
    address = in_doubt(1)

    assert "then say what you found" in words(as_olga, address)
    assert "then say what you found" not in words(as_alice, address)
    assert "You need do nothing." in words(as_alice, address)
