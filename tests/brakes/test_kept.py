"""A brake may keep what agents propose meanwhile: it waits, and goes on once the brake ends."""

from __future__ import annotations

from uuid import uuid4

import pytest

from approvals import asgi
from ledger import execution
from ledger.errors import Paused
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.brakes.conftest import WHY
from tests.brakes.test_clocks import about, faults_of_both, long_ago, now, stood
from tests.forgery import forge
from tests.ledger.test_fast_path import proposal, sent
from tests.rules.conftest import SMALL_PASS

pytestmark = pytest.mark.django_db(transaction=True)
REFUND = {"tool": "refund", "arguments": {"order": "o-1", "amount": "48.20"}}


def kept(as_helpdesk, order: str = "o-1") -> Transaction:
    answer = as_helpdesk.propose("refund", arguments={**REFUND["arguments"], "order": order})
    assert answer.status_code == 201
    return Transaction.objects.get(pk=answer.json()["transaction_id"])


def test_what_is_kept_is_planned_and_waits_for_the_end_of_the_brake(
    as_helpdesk, alice, stop, let_go_on, the_world
):
    brake = stop("acme", keeps=True)
    row = kept(as_helpdesk)
    vote = {"digest": row.intent_digest, "by": alice, "via": "web"}
    with pytest.raises(Paused, match=WHY):
        coordinator.approve(row.pk, **vote)
    assert (now(row).state, the_world.plans) == (State.PREPARED, 1)
    row = long_ago(row, 100, -10)
    stood(brake, 200)
    sweeper.set_clocks_going()
    sweeper.expire_what_is_due()
    assert now(row).state == State.PREPARED

    let_go_on(brake)
    sweeper.set_clocks_going()
    assert about(now(row).expires_at - row.expires_at, 100)
    coordinator.approve(row.pk, **vote)
    execution.commit(row.pk)

    assert now(row).state == State.COMMITTED
    assert faults_of_both() == ([], [])


def test_it_can_be_rejected_and_canceled_meanwhile(as_helpdesk, alice, stop):
    stop("acme", keeps=True)
    row = kept(as_helpdesk)
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    other = kept(as_helpdesk, "o-2")
    coordinator.cancel(other.pk, by=Principal("agent", "acme/helpdesk"), via="api")

    states = set(Transaction.objects.values_list("state", flat=True))
    assert states <= {State.ROLLING_BACK, State.ABORTED}


def test_what_may_reserve_something_while_it_plans_is_refused(as_helpdesk, stop, the_world):
    stop("acme", keeps=True)

    answer = as_helpdesk.propose("pay")

    assert (answer.status_code, answer.json()["code"]) == (409, "paused")
    assert (the_world.plans, Transaction.objects.count()) == (0, 0)


@pytest.mark.parametrize("is_first", [True, False])
def test_it_is_kept_only_if_every_brake_over_it_keeps(as_helpdesk, stop, let_go_on, is_first):
    stop("acme", keeps=is_first)
    second = stop(tool="refund", keeps=not is_first)
    stop("globex")

    assert as_helpdesk.propose(**REFUND).json()["code"] == "paused"

    let_go_on(second)
    assert (as_helpdesk.propose(**REFUND).status_code == 201) == is_first


def test_a_rule_that_lets_it_pass_does_so_after_the_brake(
    as_helpdesk, activated, stop, let_go_on, monkeypatch
):
    monkeypatch.setattr(sweeper, "GRACE", sweeper.GRACE * 0)
    activated(SMALL_PASS)
    brake = stop("acme", keeps=True)
    row = kept(as_helpdesk)
    sweeper.sign_off_by_policy()
    assert now(row).state == State.PREPARED

    let_go_on(brake)
    sweeper.sign_off_by_policy()

    assert now(row).state == State.APPROVED
    assert faults_of_both() == ([], [])


def test_on_the_fast_path_too(as_helpdesk, stop):
    stop(tool="launch", keeps=True)

    [answer] = sent(asgi.application, proposal(as_helpdesk, "r-1", uuid4().hex))

    assert answer.status_code == 201
    assert Transaction.objects.get().state == State.PREPARED


def test_a_brake_that_says_something_else_than_its_event_is_found(stop):
    stop("acme")
    forge("UPDATE ledger_brake SET keeps = true")

    own, _ = faults_of_both()

    assert "is not what its events sealed" in own[0]
