"""Slow plans: so many at once, each for its contract's time; what a late one held is released."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from ledger.contracts import tools
from ledger.errors import InProgress, LimitReached, PlanTimedOut
from ledger.execution import roll_back
from ledger.models import Ending, Transaction
from ledger.states import State
from ledger.transactions.prepare import plan_pool
from tests.conftest import propose
from tests.limits.test_caps import limit
from tests.processes import until
from tests.toolbox.world import world

pytestmark = pytest.mark.django_db(transaction=True)
PAYMENT = {"reference": "order-slow", "amount": "48.20"}


@pytest.fixture
def gate():
    """Plans wait until it is set."""
    gate = threading.Event()
    world.planning = lambda: gate.wait(60)
    yield gate
    gate.set()


def time_out_after(monkeypatch, seconds: float) -> None:
    contract = replace(tools["pay"].contract, timeout=timedelta(seconds=seconds))
    monkeypatch.setattr(tools["pay"], "contract", contract)


def attempt(agent: str = "helpdesk", **arguments: Any) -> Transaction | Exception:
    try:
        return propose(agent=agent, **arguments)
    except Exception as failure:
        return failure
    finally:
        connection.close()


def test_an_agent_has_so_many_plans_at_once_and_another_agents_passes(
    helpdesk, supervisor, gate, monkeypatch
):
    time_out_after(monkeypatch, 60)
    limit(helpdesk, plans=2)
    with ThreadPoolExecutor(3) as pool:
        slow: list[Future[Any]] = [pool.submit(attempt) for _ in range(2)]
        until(lambda: world.plans == 2, what="two plans run")

        refused = attempt()
        other = pool.submit(attempt, "supervisor")
        until(lambda: world.plans == 3, what="the other agent's plan runs")
        gate.set()

    assert isinstance(refused, LimitReached)
    assert (refused.extra["limit"], refused.extra["of"]) == ("plans", "agent")
    assert [type(each.result()) for each in (*slow, other)] == [Transaction] * 3


def test_a_plan_beyond_its_time_is_answered_for_and_what_it_held_is_released(
    helpdesk, gate, monkeypatch
):
    time_out_after(monkeypatch, 0.2)

    failure, again = attempt(**PAYMENT), attempt(**PAYMENT)

    assert isinstance(failure, PlanTimedOut)
    assert isinstance(again, InProgress)
    assert not Transaction.objects.exists()
    gate.set()
    row = until(Transaction.objects.first, what="the late plan came back")
    assert row.ending == Ending.ABANDONED
    assert world.holds
    roll_back(row.pk)
    assert not world.holds


def test_a_place_is_free_again_once_a_late_plan_has_returned(helpdesk, gate, monkeypatch):
    limit(helpdesk, plans=1)
    time_out_after(monkeypatch, 0.2)
    assert isinstance(attempt(**PAYMENT), PlanTimedOut)
    assert isinstance(attempt(), LimitReached)
    gate.set()
    time_out_after(monkeypatch, 60)

    until(lambda: isinstance(attempt(), Transaction), what="there is room for a plan")


def test_a_late_plan_does_not_release_the_hold_that_another_process_plans_with(
    helpdesk, gate, monkeypatch, caplog
):
    time_out_after(monkeypatch, 0.2)
    caplog.set_level("INFO", logger="ledger.transactions.prepare.abandoned_plans")
    assert isinstance(attempt(**PAYMENT), PlanTimedOut)
    time_out_after(monkeypatch, 60)
    plan_pool._late.clear()  # another process has none of these

    def planning() -> None:
        gate.set()
        with suppress(AssertionError):  # nothing is released while this plan runs
            left = until(Transaction.objects.first, seconds=1)
            roll_back(left.pk)

    world.planning = planning
    row = attempt(**PAYMENT)

    assert isinstance(row, Transaction)
    until(lambda: "belongs to another transaction" in caplog.text, what="the late plan ended")
    assert Transaction.objects.get().state == State.PREPARED
    assert world.holds == {row.operation_key}
