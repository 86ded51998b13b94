"""Many executions of one process: together where they go as they should, else each by itself."""

from __future__ import annotations

import threading
import time
from uuid import UUID

import pytest
from django.db import OperationalError, connection, connections
from django.db.transaction import atomic

from ledger.contracts import NothingHappened
from ledger.execution import Executions, executions, leases
from ledger.execution.tool_calls import ToolCall
from ledger.models import SilentAddress, Transaction
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


class Carried:
    """Executions of a worker, and the transactions that it has done with."""

    def __init__(self) -> None:
        self.ended: list[UUID] = []
        self.executions = Executions(self.ended.extend)

    def begin(self, *rows: Transaction) -> set[UUID]:
        return self.executions.begin([row.pk for row in rows])

    def until_ended(self, *rows: Transaction) -> list[str]:
        """The states of these, once it has done with them."""
        until(lambda: {row.pk for row in rows} <= set(self.ended))
        return [state_of(row) for row in rows]


def state_of(row: Transaction) -> str:
    return str(Transaction.objects.get(pk=row.pk).state)


@pytest.fixture
def carried() -> Carried:
    return Carried()


class Lock:
    """Somebody else's session that locks a row until it is let go."""

    def __init__(self, row: Transaction | SilentAddress) -> None:
        self._row = row
        self._is_held, self._let_go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._is_held.wait(10)

    def __exit__(self, *_: object) -> None:
        self._let_go.set()
        self._thread.join()

    def _hold(self) -> None:
        with atomic():
            type(self._row).objects.select_for_update().get(pk=self._row.pk)
            self._is_held.set()
            self._let_go.wait(20)
        connections.close_all()


def test_several_are_carried_out_with_one_effect_each(approved, carried, the_world):
    rows = [approved() for _ in range(4)]

    assert carried.begin(*rows) == {row.pk for row in rows}

    assert carried.until_ended(*rows) == ["committed"] * 4
    assert the_world.effects == {row.operation_key: 1 for row in rows}
    assert sorted(carried.ended) == sorted(row.pk for row in rows)


def test_what_is_not_approved_or_is_locked_is_not_claimed(approved, carried):
    done, locked, free = approved(), approved(), approved()
    carried.begin(done)
    carried.until_ended(done)

    with Lock(locked):
        assert carried.begin(done, locked, free) == {free.pk}
        assert carried.until_ended(free) == ["committed"]
        assert state_of(locked) == "approved"


def test_a_row_that_is_locked_when_its_receipt_comes_delays_no_other(approved, carried, the_world):
    may_return = threading.Event()
    the_world.after = [lambda: may_return.wait(20)] * 2
    locked, free = approved(), approved()
    carried.begin(locked, free)
    until(lambda: len(the_world.effects) == 2)

    with Lock(locked):
        may_return.set()
        assert carried.until_ended(free) == ["committed"]
        assert locked.pk not in carried.ended

    assert carried.until_ended(locked) == ["committed"]


def test_what_the_tool_refuses_fails_and_harms_no_other(approved, carried, the_world):
    def refuse() -> None:
        raise NothingHappened("Card expired.")

    refused = approved()
    the_world.before = [refuse]
    carried.begin(refused)
    assert carried.until_ended(refused) == ["rolling_back"]

    other = approved()
    carried.begin(other)
    assert carried.until_ended(other) == ["committed"]


def test_a_call_without_an_answer_is_given_up_and_its_late_receipt_counts(
    approved, carried, the_world
):
    may_return = threading.Event()
    the_world.after = [lambda: may_return.wait(30)]
    row = approved()
    carried.begin(row)

    assert carried.until_ended(row) == ["in_doubt"]  # the contract gives it a second
    assert SilentAddress.objects.get().timeouts == 1
    may_return.set()

    until(lambda: state_of(row) == "committed")


def test_outcomes_whose_statement_fails_are_recorded_one_by_one(approved, carried, monkeypatch):
    asked: list[int] = []

    def fails(commits: list[object]) -> set[UUID]:
        asked.append(len(commits))
        raise OperationalError("the connection was lost")

    monkeypatch.setattr(executions, "record_all", fails)
    rows = [approved() for _ in range(3)]
    carried.begin(*rows)

    assert carried.until_ended(*rows) == ["committed"] * 3
    assert sum(asked) == 3


def lets_a_lease_lapse(row: Transaction, seconds: float) -> bool:
    lapsed, end = False, time.monotonic() + seconds
    while time.monotonic() < end:
        lapsed |= Transaction.objects.lease_lapsed().filter(pk=row.pk).exists()
        time.sleep(0.02)
    return lapsed


@pytest.mark.slow
def test_leases_are_renewed_while_a_record_hangs(
    approved, carried, the_world, settings, monkeypatch
):
    settings.LEASE_S = 2
    is_over = threading.Event()
    monkeypatch.setattr(executions, "record_all", lambda commits: is_over.wait(20) and set())
    slow, quick = approved(), approved("launch", rocket="r1")
    the_world.before = [lambda: is_over.wait(20)]
    carried.begin(slow)
    until(lambda: not the_world.before)

    carried.begin(quick)

    assert not lets_a_lease_lapse(slow, 4)
    is_over.set()
    assert carried.until_ended(slow, quick) == ["committed"] * 2


@pytest.mark.slow
def test_a_result_that_takes_long_to_read_delays_no_other(approved, carried, the_world):
    is_read = threading.Event()

    class Slow:
        def __repr__(self) -> str:
            is_read.wait(20)
            return "slow"

    slow, quick = approved(), approved()
    the_world.result = lambda receipt: {"receipt_id": receipt, "extra": Slow()}
    carried.begin(slow)
    until(lambda: the_world.effects[slow.operation_key] == 1)
    the_world.result = lambda receipt: {"receipt_id": receipt}

    carried.begin(quick)

    assert carried.until_ended(quick) == ["committed"]
    assert slow.pk not in carried.ended
    is_read.set()
    assert carried.until_ended(slow) == ["committed"]


@pytest.mark.slow
def test_a_silent_address_that_somebody_has_locked_delays_only_its_own_calls(
    approved, carried, the_world, settings
):
    settings.LEASE_S = 2
    may_return = threading.Event()
    the_world.before = [lambda: may_return.wait(20)] * 2
    slow, hangs = approved("scuttle", rocket="r1"), approved("launch", rocket="r2")
    silent = SilentAddress.objects.create(tenant="acme", address="launch", acts=True)

    with Lock(silent):
        carried.begin(slow, hangs)
        assert not lets_a_lease_lapse(slow, 5)

    may_return.set()
    assert carried.until_ended(slow) == ["committed"]


def test_a_row_that_cannot_be_checked_harms_no_other(approved, carried, the_world):
    rows = [approved() for _ in range(3)]
    changed = rows[1]
    amount = {"amount": 10**20}  # more than canonical JSON has
    Transaction.objects.filter(pk=changed.pk).update(arguments=changed.arguments | amount)

    carried.begin(*rows)

    assert carried.until_ended(rows[0], rows[2]) == ["committed"] * 2
    assert carried.until_ended(changed) == ["committing"]  # in doubt, once its lease is over
    assert the_world.effects == {rows[0].operation_key: 1, rows[2].operation_key: 1}


def test_a_tool_that_is_gone_since_the_claim_is_named(approved, carried, monkeypatch):
    row = approved()
    monkeypatch.setattr(leases, "tool_of", lambda row: None)

    carried.begin(row)

    assert carried.until_ended(row) == ["in_doubt"]
    assert "pay" in Transaction.objects.get(pk=row.pk).error


def test_a_call_for_which_the_system_has_no_thread_delays_no_other(approved, carried, monkeypatch):
    start = ToolCall.start
    left = [RuntimeError("can't start new thread")]
    monkeypatch.setattr(ToolCall, "start", lambda call: start(call) if not left else raised(left))
    first, second = approved(), approved()

    carried.begin(first)
    carried.begin(second)

    assert carried.until_ended(second, first) == ["committed", "committing"]


def raised(failures: list[RuntimeError]) -> None:
    raise failures.pop()


def test_a_row_that_was_changed_is_not_carried_out(approved, carried, the_world):
    changed, other = approved(), approved()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_transaction SET arguments = arguments || '{\"amount\": 9999}'"
            " WHERE id = %s",
            [changed.pk],
        )

    carried.begin(changed, other)

    assert carried.until_ended(changed, other)[1] == "committed"
    assert the_world.effects == {other.operation_key: 1}
    assert "changed" in Transaction.objects.get(pk=changed.pk).error
