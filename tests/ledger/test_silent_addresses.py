"""Addresses that time out: after three in a row one call at a time, until one is answered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db.models.functions import Now

from ledger import contracts, execution
from ledger.errors import AddressSilent, PlanFailed, PlanTimedOut
from ledger.models import Reading, SilentAddress, Transaction
from ledger.tools import silent_addresses
from ledger.tools.silent_addresses import Address
from ledger.transactions.prepare import plan_pool
from ledger.workers.calls import Calls
from tests.conftest import propose
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

ACTING = Address("acme", "pay", True)
ASKING = Address("acme", "pay", False)
LONG = timedelta(seconds=30)


def times_out() -> None:
    raise TimeoutError


def make_silent(address: Address = ACTING, timeouts: int = 3) -> None:
    for _ in range(timeouts):
        silent_addresses.note(address, is_silence=True)


def number(address: Address = ACTING) -> int:
    rows = SilentAddress.objects.filter(tenant=address.tenant, address=address.address)
    return sum(rows.filter(acts=address.acts).values_list("timeouts", flat=True))


@pytest.fixture
def carry_out() -> Callable[[Transaction], None]:
    return lambda row: execution.commit(row.pk)


@pytest.fixture
def begin():
    """Give jobs to a worker's calls; returns the ids whose work was begun so far."""
    calls, begun = Calls(8, "test"), list[str]()

    def give(*rows: Transaction, queue: str = "commit") -> list[str]:
        ids = [str(row.pk) for row in rows]
        calls.begin_each(queue, {job_id: partial(begun.append, job_id) for job_id in ids})
        until(lambda: not calls._in_hand)
        carried_out = Transaction.objects.filter(pk__in=ids, state="committed")
        return [*begun, *(str(pk) for pk in carried_out.values_list("pk", flat=True))]

    return give


# --- what is counted ----------------------------------------------------------------------------


def test_time_outs_are_counted_until_a_call_is_answered(approved, carry_out, the_world):
    the_world.before = [times_out, times_out]
    for _ in range(2):
        carry_out(approved())
    assert number() == 2

    carry_out(approved())

    assert number() == 0


def test_a_call_that_does_not_return_counts(approved, carry_out, the_world):
    released = []
    the_world.before = [lambda: until(lambda: bool(released))]

    row = approved()
    carry_out(row)  # the contract gives it a second

    assert number() == 1
    released.append(True)
    until(lambda: Transaction.objects.get(pk=row.pk).state == "committed")


def test_an_error_is_an_answer(approved, carry_out, the_world):
    make_silent(timeouts=2)

    def fails():
        raise ValueError

    the_world.before = [fails]

    carry_out(approved())

    assert number() == 0


def test_a_call_that_was_not_made_says_nothing(approved, carry_out, the_world):
    make_silent(timeouts=2)

    def not_yet():
        raise contracts.NothingHappenedYet("It is closed.")

    the_world.before = [not_yet]

    carry_out(approved())

    assert number() == 2


def test_tenants_and_plans_count_apart():
    make_silent(ACTING)

    def is_known() -> bool:  # a thread of an earlier test may have looked just before
        silent_addresses.read()
        return silent_addresses.is_silent(ACTING)

    until(is_known)
    assert not silent_addresses.is_silent(ASKING)
    assert not silent_addresses.is_silent(ACTING._replace(tenant="globex"))


def test_an_address_that_is_called_no_more_is_forgotten():
    make_silent()
    silent_addresses.forget_old()
    assert number() == 3
    SilentAddress.objects.update(last_at=Now() - timedelta(hours=1))

    silent_addresses.forget_old()

    assert number() == 0


# --- workers ------------------------------------------------------------------------------------


def test_one_call_of_a_silent_address_is_begun_at_a_time(approved, begin):
    first, second, of_another_tool = approved(), approved(), approved("order", item="rope")
    make_silent()

    with silent_addresses.turn(ACTING, LONG) as may_call:
        assert may_call
        assert begin(first, second, of_another_tool) == [str(of_another_tool.pk)]

    assert str(first.pk) in begin(first)


def test_a_turn_that_is_not_given_back_ends_by_itself(approved, begin):
    row = approved()
    make_silent()
    SilentAddress.objects.update(called_until=Now() - timedelta(seconds=1))

    assert begin(row) == [str(row.pk)]


def test_work_that_waited_for_a_place_finds_that_its_address_is_silent(approved, the_world):
    calls, begun, rows = Calls(4, "test"), [], [approved() for _ in range(3)]
    make_silent(timeouts=2)

    def times_out_while_another_takes_the_turn() -> None:
        SilentAddress.objects.update(called_until=Now() + LONG)
        raise TimeoutError

    the_world.before = [times_out_while_another_takes_the_turn]

    ids = [str(row.pk) for row in rows]
    calls.begin_each("commit", {job_id: partial(begun.append, job_id) for job_id in ids})
    until(lambda: not calls._in_hand)

    assert not begun
    states = [Transaction.objects.get(pk=row.pk).state for row in rows]
    assert states == ["in_doubt", "approved", "approved"]


def test_an_answer_that_another_process_got_lets_all_go_on(approved, begin):
    rows = [approved() for _ in range(3)]
    make_silent()
    SilentAddress.objects.all().delete()  # by the other process

    assert set(begin(*rows)) == {str(row.pk) for row in rows}


def test_look_ups_go_on_while_only_calls_with_an_effect_time_out(approved, carry_out, begin):
    in_doubt = approved()
    Transaction.objects.filter(pk=in_doubt.pk).update(state="in_doubt", next_attempt_at=Now())
    make_silent()
    with silent_addresses.turn(ACTING, LONG):
        assert begin(in_doubt) == [str(in_doubt.pk)]


def test_a_roll_back_waits_as_well(approved, begin):
    row = approved()
    Transaction.objects.filter(pk=row.pk).update(state="rolling_back")
    make_silent()
    with silent_addresses.turn(ACTING, LONG):
        assert begin(row, queue="roll_back") == []


def test_a_second_attempt_waits_and_costs_none_meanwhile(approved, carry_out, the_world):
    row = approved()
    the_world.before = [times_out]
    carry_out(row)
    make_silent(timeouts=2)
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())

    with silent_addresses.turn(ACTING, LONG):
        carry_out(row)
        row.refresh_from_db()
        assert (row.state, row.attempts) == ("in_doubt", 1)
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    carry_out(row)

    row.refresh_from_db()
    assert (row.state, the_world.effects[row.operation_key]) == ("committed", 1)
    assert number() == 0


# --- plans and readings -------------------------------------------------------------------------


def test_a_plan_of_a_silent_address_is_refused_at_once(acme, the_world):
    make_silent(ASKING)

    with silent_addresses.turn(ASKING, LONG), pytest.raises(AddressSilent) as refusal:
        propose()

    assert "does not answer" in str(refusal.value.detail)
    assert the_world.plans == 0


def test_a_plan_that_is_answered_lets_all_go_on(acme):
    make_silent(ASKING)

    propose()

    assert number(ASKING) == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_plans_that_time_out_are_counted(is_late, acme, the_world):
    released = []
    the_world.planning = times_out if not is_late else lambda: until(lambda: bool(released))

    with pytest.raises(PlanTimedOut if is_late else PlanFailed):
        propose()
    released.append(True)
    until(lambda: not plan_pool._late)

    assert number(ASKING) == 1


def test_an_agent_is_told_when_to_try_a_plan_again(as_helpdesk):
    make_silent(ASKING)

    with silent_addresses.turn(ASKING, LONG):
        answer = as_helpdesk.propose()

    assert answer.status_code == 503
    assert answer.json()["code"] == "address_silent"
    assert int(answer["Retry-After"]) > 0


def test_a_tool_without_effects_is_called_by_one_agent_at_a_time(as_helpdesk):
    address = Address("acme", "dawdle", False)
    for _ in range(3):
        as_helpdesk.post("/tools/dawdle/call", {"arguments": {}})
    assert number(address) == 3

    with silent_addresses.turn(address, LONG):
        answer = as_helpdesk.post("/tools/dawdle/call", {"arguments": {}})

    assert "It was not called now." in answer.json()["detail"]
    assert Reading.objects.exclude(error="").count() == 4
    assert number(address) == 3
