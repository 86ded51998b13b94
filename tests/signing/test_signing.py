"""What is signed with a passkey: by whom, with which key, and what is checked of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger import contracts, execution
from ledger.states import State
from ledger.transactions import coordinator, links_of
from tests.rules.test_proof import faults_of_both
from tests.signing.conftest import SIGNED, approve, sign

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


@pytest.fixture
def strict(monkeypatch):
    """Deploys the tool anew, with a contract that asks people for this."""

    def make(name, strength):
        tool = contracts.tools[name]
        monkeypatch.setattr(tool, "contract", replace(tool.contract, strength=strength))

    return make


def test_a_contract_asks_for_a_signature_where_the_tenant_has_no_rules(
    as_alice, alice_user, refund, has_key, strict
):
    strict("refund", "passkey")
    key, row = has_key(alice_user), refund()

    refused = approve(as_alice, row)
    answer = sign(as_alice, row, key)

    assert (refused.status_code, answer.status_code) == (403, 200)
    execution.commit(row.pk)
    row.refresh_from_db()
    assert (row.state, row.terms["set"], row.terms["strength"]) == (State.COMMITTED, 0, "passkey")
    assert faults_of_both() == ([], [])


def test_no_worker_carries_out_what_asks_for_less_than_its_contract_does(alice, refund, strict):
    row = refund()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    strict("refund", "passkey")

    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.ending, row.receipt) == ("failed", "")
    assert "Its contract asks people for more than a click by now: passkey." in row.ending_reason
