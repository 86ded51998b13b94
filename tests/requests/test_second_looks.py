"""What was signed off is carried out while it is true; else it is planned and asked again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from ledger import execution
from ledger.contracts import NothingHappened
from ledger.models import Event, Transaction
from ledger.proof.audit import verification
from ledger.states import Ending, State
from tests.conftest import propose
from tests.requests.conftest import approve

pytestmark = pytest.mark.django_db


def aged(row: Transaction, minutes: int = 6) -> None:
    """As if it had been planned so long ago."""
    age = timedelta(minutes=minutes)
    Transaction.objects.filter(pk=row.pk).update(
        true_until=F("true_until") - age, planned_at=F("planned_at") - age
    )


def carried_out(row: Transaction) -> Transaction:
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


def released() -> None:
    for row in Transaction.objects.filter(ending=Ending.ABANDONED, state=State.ROLLING_BACK):
        execution.roll_back(row.pk)


def test_a_young_plan_is_carried_out_as_it_is(reserved, alice, the_world):
    approve(reserved, alice)
    assert carried_out(reserved).state == State.COMMITTED
    assert the_world.plans == 1


def test_an_old_plan_that_comes_out_the_same_goes_on(reserved, alice, the_world):
    approve(reserved, alice)
    aged(reserved)
    row = carried_out(reserved)
    assert (row.state, row.revision, the_world.plans) == (State.COMMITTED, 1, 2)
    assert Event.objects.filter(subject=row.pk, kind="plan_confirmed").exists()
    released()
    assert [*the_world.reserved] == [row.held["reservation"]]
    verification.verify()


def test_an_old_plan_that_comes_out_otherwise_asks_again(reserved, alice, bob, the_world):
    approve(reserved, alice)
    aged(reserved)
    the_world.price = 120
    row = carried_out(reserved)
    assert (row.state, row.revision, str(row.amount)) == (State.PREPARED, 2, "120.000000")
    assert row.decided_at is None
    released()
    approve(row, alice)  # who had approved it before may do so again
    assert carried_out(row).state == State.COMMITTED
    verification.verify()


def test_it_has_time_again_to_be_decided(reserved, alice, the_world):
    approve(reserved, alice)
    aged(reserved)
    the_world.price = 120
    before = reserved.expires_at
    row = carried_out(reserved)
    assert row.expires_at > before
    assert Event.objects.get(subject=row.pk, kind="extended").principal == "system:worker"
    verification.verify()


def test_what_the_tool_refuses_by_now_ends_without_effect(reserved, alice, the_world):
    approve(reserved, alice)
    aged(reserved)
    the_world.is_closed = True
    row = carried_out(reserved)
    assert (row.state, row.ending) == (State.ROLLING_BACK, Ending.OUTDATED)
    assert "closed" in row.ending_reason
    execution.roll_back(row.pk)
    assert the_world.reserved == {}
    assert the_world.effects.total() == 0
    verification.verify()


def test_an_effect_on_the_same_has_it_planned_again(reserved, alice, the_world):
    other = propose("reserve", guest="Ben", room="7")
    elsewhere = propose("reserve", guest="Cleo", room="8")
    for row in (reserved, other, elsewhere):
        approve(row, alice)
    carried_out(other)
    assert carried_out(elsewhere).state == State.COMMITTED
    assert the_world.plans == 3
    the_world.price = 120
    assert carried_out(reserved).state == State.PREPARED
    verification.verify()


def test_what_ended_without_effect_touches_nothing(reserved, alice, the_world):
    other = propose("reserve", guest="Ben", room="7")
    the_world.before.append(_fails)
    for row in (reserved, other):
        approve(row, alice)
    carried_out(other)
    assert carried_out(reserved).state == State.COMMITTED
    assert the_world.plans == 2


def _fails() -> None:
    raise NothingHappened("Full.")


def test_a_tool_is_asked_whether_it_is_still_valid(helpdesk, alice, the_world):
    row = propose("greet", guest="Ada")
    approve(row, alice)
    assert carried_out(row).state == State.COMMITTED

    late = propose("greet", guest="Ben")
    approve(late, alice)
    the_world.is_valid = lambda: False
    assert carried_out(late).state == State.COMMITTED  # planned again, it is the same
    assert Event.objects.filter(subject=late.pk, kind="plan_confirmed").exists()
    verification.verify()


def test_a_tool_that_cannot_say_is_asked_again_later(helpdesk, alice, the_world):
    row = propose("greet", guest="Ada")
    approve(row, alice)
    the_world.is_valid = _breaks
    assert carried_out(row).state == State.APPROVED
    assert row.next_attempt_at is not None
    assert "Before it is carried out" in row.error
    the_world.is_valid = lambda: True
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=None)
    assert carried_out(row).state == State.COMMITTED
    assert row.error == ""


def _breaks() -> bool:
    raise RuntimeError("down")
