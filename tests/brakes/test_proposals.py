"""Proposals of what is stopped, and approvals of it, are refused with the reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from approvals import asgi
from ledger.errors import Paused
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.brakes.conftest import WHY
from tests.forgery import forge, reseal_row
from tests.ledger.test_fast_path import proposal, sent, takes_the_fast_path

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_proposal_is_answered_with_the_reason_before_anything_is_planned(
    as_helpdesk, stop, let_go_on, the_world
):
    brake = stop("acme", lasts=timedelta(minutes=10))

    answer = as_helpdesk.propose("pay")

    assert answer.status_code == 409
    assert answer.json()["code"] == "paused"
    assert WHY in answer.json()["detail"]
    assert 590 <= int(answer["Retry-After"]) <= 600
    assert (the_world.plans, Transaction.objects.count()) == (0, 0)

    let_go_on(brake)
    assert as_helpdesk.propose("pay").status_code == 201


def test_without_an_end_it_is_asked_again_in_a_minute(as_helpdesk, stop):
    stop()
    assert as_helpdesk.propose("pay")["Retry-After"] == "60"


def test_a_known_key_still_gets_its_first_answer(as_helpdesk, stop):
    said = {"key": uuid4().hex, "arguments": {"reference": "r-1", "amount": "1"}}
    first = as_helpdesk.propose("pay", **said)
    stop("acme")

    again = as_helpdesk.propose("pay", **said)

    assert (again.status_code, again.json()["transaction_id"]) == (
        201,
        first.json()["transaction_id"],
    )


@pytest.mark.parametrize(
    "scope",
    [
        {"tenant": "acme"},
        {"tool": "launch"},
        {},
        {"agent": "agent:acme/helpdesk", "tenant": "acme"},
    ],
)
def test_the_fast_path_leaves_what_is_stopped_to_the_refusal(as_helpdesk, stop, let_go_on, scope):
    brake = stop(**scope)
    key = uuid4().hex

    [refused] = sent(asgi.application, proposal(as_helpdesk, "r-1", key))
    let_go_on(brake)
    [prepared] = sent(asgi.application, proposal(as_helpdesk, "r-1", key))
    stop(**scope)
    [again] = sent(asgi.application, proposal(as_helpdesk, "r-1", key))

    assert (refused.status_code, refused.json()["code"]) == (409, "paused")
    assert refused.headers["retry-after"] == "60"
    assert (prepared.status_code, again.status_code) == (201, 201)
    assert prepared.json()["transaction_id"] == again.json()["transaction_id"]


def test_other_tools_of_the_tenant_keep_the_fast_path(as_helpdesk, stop):
    stop("acme", tool="pay")
    assert takes_the_fast_path(proposal(as_helpdesk))


def test_nobody_approves_what_is_stopped_and_everybody_may_reject_it(a_payment, alice, stop):
    row, other = a_payment(), a_payment()
    stop("acme")
    vote: dict[str, Any] = {"by": alice, "via": "web"}

    with pytest.raises(Paused) as refusal:
        coordinator.approve(row.pk, digest=row.intent_digest, **vote)
    assert WHY in str(refusal.value)
    assert coordinator.approve_all({row.pk: {"digest": row.intent_digest, **vote}}) == []
    coordinator.reject(row.pk, digest=row.intent_digest, reason="No.", **vote)
    proposer = Principal("agent", "acme/helpdesk")
    coordinator.cancel(other.pk, by=proposer, via="api")

    states = set(Transaction.objects.values_list("state", flat=True))
    assert states == {State.ROLLING_BACK}


def test_policy_signs_nothing_off_that_is_stopped(a_transaction, stop, let_go_on):
    row = a_transaction("write_note", text="x")
    assert row.state == State.APPROVED
    forge("UPDATE ledger_transaction SET state = 'prepared' WHERE id = %s", row.pk)
    forge("DELETE FROM ledger_decision WHERE transaction_id = %s", row.pk)
    forge("DELETE FROM ledger_event WHERE subject = %s AND seq > 1", row.pk)
    forge("UPDATE ledger_transaction SET created_at = created_at - interval '9 s'")
    reseal_row(row.pk)
    brake = stop("acme")

    sweeper.sign_off_by_policy()
    with pytest.raises(Paused):
        coordinator.approve_by_policy(row.pk, row.intent_digest, None)
    assert Transaction.objects.get().state == State.PREPARED

    let_go_on(brake)
    sweeper.sign_off_by_policy()
    assert Transaction.objects.get().state == State.APPROVED
