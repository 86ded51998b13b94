"""What is signed with a passkey: by whom, with which key, and what is checked of it."""

from __future__ import annotations

import pytest

from ledger import execution
from ledger.states import State
from ledger.transactions import links_of
from tests.signing.conftest import SIGNED, sign

pytestmark = pytest.mark.django_db


def test_a_person_signs_and_a_worker_carries_it_out(
    as_alice, alice_user, activated, refund, has_key
):
    activated(SIGNED)
    key, row = has_key(alice_user), refund()

    answer = sign(as_alice, row, key)

    row.refresh_from_db()
    assert (answer.status_code, row.state) == (200, State.APPROVED)
    [vote] = [link for link in links_of(row.pk) if "assertion" in link.says]
    assert vote.says["assertion"]["credential"] == key.credential
    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == State.COMMITTED
