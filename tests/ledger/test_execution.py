"""Claim, call, record: one effect, whatever goes wrong in between."""

from __future__ import annotations

import re
import threading
import time
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connections
from django.db.models.functions import Now
from django.utils import timezone

from ledger import execution
from ledger.contracts import NothingHappened
from ledger.errors import InvalidRequest, NotPossible
from ledger.execution import crash_points, recording
from ledger.execution.tool_calls import Nothing
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


def after(row: Transaction) -> Transaction:
    return Transaction.objects.get(pk=row.pk)


def kinds(row: Transaction) -> list[str]:
    return [event.kind for event in row.events.order_by("seq")]


class Killed(BaseException):
    """A worker that is gone from one line to the next."""


def killed_at(name: str) -> None:
    def crash(here: str) -> None:
        if here == name:
            raise Killed(here)

    crash_points.hook = crash


def fail(error: Exception):
    def raise_it() -> None:
        raise error

    return raise_it


def lease_runs_out(row: Transaction) -> None:
    Transaction.objects.filter(pk=row.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    sweeper.doubt_lapsed_leases()
    Transaction.objects.filter(pk=row.pk, state=State.IN_DOUBT).update(next_attempt_at=Now())


def test_an_approved_transaction_is_carried_out_once_and_keeps_its_receipt(approved, the_world):
    row = approved()

    execution.commit(row.pk)
    execution.commit(row.pk)

    row = after(row)
    assert (row.state, row.receipt, row.ledger_status) == ("committed", "re_1", "succeeded")
    assert the_world.effects == {row.operation_key: 1}
    assert kinds(row) == ["prepared", "approved", "claimed", "committed"]


def test_of_many_workers_with_the_same_job_one_acts(approved, the_world):
    row = approved()

    def work() -> None:
        try:
            execution.commit(row.pk)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert after(row).state == State.COMMITTED
    assert the_world.effects == {row.operation_key: 1}


def test_what_the_tool_refuses_is_known_to_have_failed_and_lets_go(approved, the_world):
    the_world.before = [fail(NothingHappened("Card expired."))]
    row = approved()

    execution.commit(row.pk)
    execution.roll_back(row.pk)

    row = after(row)
    assert (row.state, row.error, row.ending_reason) == ("failed", "Card expired.", "Card expired.")
    assert the_world.holds == set()
    assert the_world.effects == {}


@pytest.mark.parametrize("tool", ["pay", "launch"])
def test_an_answer_that_never_comes_is_unknown_and_never_rolled_back(approved, the_world, tool):
    arguments = {"rocket": "r1"} if tool == "launch" else {}
    the_world.after = [fail(ConnectionError("connection reset"))]
    row = approved(tool, **arguments)

    execution.commit(row.pk)

    row = after(row)
    assert row.state == "in_doubt"
    assert re.fullmatch(r"ConnectionError \(error [0-9a-f]{8}\)", row.error)
    assert row.error_detail == "ConnectionError: connection reset"
    execution.roll_back(row.pk)
    assert after(row).state == State.IN_DOUBT


def test_a_lost_answer_is_found_again_by_asking_for_the_receipt(approved, the_world):
    the_world.after = [fail(ConnectionError("connection reset"))]
    row = approved()
    execution.commit(row.pk)

    execution.commit(row.pk)

    row = after(row)
    assert (row.state, row.receipt) == ("committed", "re_1")
    assert the_world.effects == {row.operation_key: 1}


def test_a_lost_request_is_sent_again_where_the_tool_is_retry_safe(approved, the_world):
    the_world.before = [fail(ConnectionError("no route"))]
    row = approved()
    execution.commit(row.pk)

    execution.commit(row.pk)

    row = after(row)
    assert (row.state, row.attempts) == ("committed", 2)
    assert kinds(row)[2:] == ["claimed", "fell_in_doubt", "retried", "committed"]


def test_a_tool_that_is_not_retry_safe_waits_for_a_person(approved, the_world):
    the_world.before = [fail(ConnectionError("no route"))]
    row = approved("launch", rocket="r1")
    execution.commit(row.pk)

    for _ in range(3):
        execution.commit(row.pk)

    assert after(row).state == State.IN_DOUBT
    assert the_world.effects == {}


def test_retries_end_and_then_a_person_is_asked(approved, the_world):
    the_world.before = [fail(ConnectionError("no route"))] * 9
    row = approved()

    for _ in range(6):
        execution.commit(row.pk)
        Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())

    row = after(row)
    assert (row.state, row.attempts) == ("in_doubt", 3)


def test_a_tool_slower_than_its_timeout_is_in_doubt_and_heard_when_it_answers(approved, the_world):
    release = threading.Event()
    the_world.before = [lambda: release.wait(10) and None]
    row = approved("launch", rocket="slow")

    execution.commit(row.pk)
    assert after(row).state == State.IN_DOUBT
    release.set()

    deadline = time.monotonic() + 10
    while after(row).state != State.COMMITTED and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    assert after(row).receipt == "re_1"
    assert the_world.effects == {row.operation_key: 1}


def test_the_lease_is_renewed_while_a_long_execution_runs(approved, the_world, settings):
    settings.LEASE_S = 0.3
    seen = []

    def take_long() -> None:
        for _ in range(8):
            threading.Event().wait(0.1)
            seen.append(Transaction.objects.filter(lease_expires_at__lte=Now()).exists())

    the_world.before = [take_long]
    row = approved()

    execution.commit(row.pk)

    assert after(row).state == State.COMMITTED
    assert seen == [False] * 8


CRASHES = [
    "before claim",
    "after claim",
    "before execute",
    "after execute",
    "before record",
    "after record",
]


@pytest.mark.parametrize("line", CRASHES)
def test_a_worker_killed_at_any_line_leaves_one_effect_of_a_retry_safe_tool(
    approved, the_world, line
):
    row = approved()
    killed_at(line)
    _run_until_killed(row)
    crash_points.hook = lambda name: None

    lease_runs_out(row)
    execution.commit(row.pk)

    row = after(row)
    assert (row.state, row.receipt) == ("committed", "re_1")
    assert the_world.effects == {row.operation_key: 1}


@pytest.mark.parametrize("line", CRASHES)
def test_a_worker_killed_at_any_line_never_doubles_the_effect_of_another_tool(
    approved, the_world, line
):
    row = approved("launch", rocket="r1")
    killed_at(line)
    _run_until_killed(row)
    crash_points.hook = lambda name: None

    lease_runs_out(row)
    for _ in range(3):
        execution.commit(row.pk)

    row = after(row)
    assert the_world.effects[row.operation_key] <= 1
    assert row.state in {State.COMMITTED, State.IN_DOUBT}
    assert row.state == State.IN_DOUBT or row.receipt


def _run_until_killed(row: Transaction) -> None:
    """In a thread of the tool a kill is a kill as well: nothing is recorded after it."""

    def work() -> None:
        try:
            execution.commit(row.pk)
        except Killed:
            pass
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        thread.start()
        thread.join()
    finally:
        threading.excepthook = hook
    # A kill inside the tool's thread leaves the waiting worker alive; the real one is dead too.
    if after(row).state == State.IN_DOUBT:
        Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())


def test_a_worker_that_was_overtaken_cannot_write_any_more(approved, the_world):
    row = approved()
    slow = execution.claim(row.pk)
    lease_runs_out(row)
    execution.commit(row.pk)

    recording.record(slow, Nothing("too late"))

    row = after(row)
    assert (row.state, row.error) == ("committed", "")
    assert "failed" not in kinds(row)


def test_the_digest_is_tested_again_before_anything_is_carried_out(approved, the_world):
    row = approved()
    Transaction.objects.filter(pk=row.pk).update(
        arguments={"reference": "mine", "amount": "9999.00", "currency": "EUR"}
    )

    execution.commit(row.pk)
    execution.roll_back(row.pk)

    row = after(row)
    # What it holds is named by columns that were changed too: a person has to release it.
    assert row.state == State.ROLLING_BACK
    assert row.error == "The transaction was changed after it was signed off."
    assert the_world.effects == {}
    assert len(the_world.holds) == 1


def test_a_state_that_was_forged_to_approved_is_not_carried_out(a_payment, the_world):
    row = a_payment()
    Transaction.objects.filter(pk=row.pk).update(state=State.APPROVED)

    execution.commit(row.pk)

    assert after(row).state == State.ROLLING_BACK
    assert "claimed does not lead out of 'prepared'" in after(row).error
    assert the_world.effects == {}


def test_an_answer_without_receipt_is_not_a_commit(approved, the_world):
    the_world.result = lambda receipt: {"ok": True}
    row = approved("launch", rocket="r1")

    execution.commit(row.pk)

    row = after(row)
    assert (row.state, row.error) == ("in_doubt", "The tool answered without a receipt.")


def test_an_answer_that_is_no_json_is_kept_as_text_and_still_committed(approved, the_world):
    the_world.result = lambda receipt: {
        "receipt_id": receipt,
        "odd": {1, 2},
        "nul": "a\x00b",
        "nan": float("nan"),
        "thing": object,
    }
    row = approved()

    execution.commit(row.pk)

    row = after(row)
    assert (row.state, row.receipt) == ("committed", "re_1")
    assert row.result["nul"] == "a\N{REPLACEMENT CHARACTER}b"


def test_a_hold_that_lapsed_before_a_worker_came_is_not_carried_out(approved, the_world):
    the_world.hold_expires_at = timezone.now() - timedelta(seconds=1)
    row = approved()

    execution.commit(row.pk)
    execution.roll_back(row.pk)

    row = after(row)
    assert (row.state, row.ending) == ("aborted", "hold_lapsed")
    assert the_world.effects == {}


def test_rollback_is_tried_until_it_succeeds(a_payment, alice, the_world):
    the_world.rollback_trouble = [ConnectionError("down"), ConnectionError("down")]
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="no")

    for _ in range(3):
        execution.roll_back(row.pk)
        Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())

    row = after(row)
    assert (row.state, row.ending) == ("aborted", "rejected")
    assert the_world.holds == set()


def test_a_committed_transaction_can_be_compensated_once(approved, the_world, bob):
    row = approved()
    execution.commit(row.pk)

    coordinator.compensate(row.pk, by=bob, via="admin", reason="Wrong customer.")
    execution.compensate(row.pk)
    execution.compensate(row.pk)

    row = after(row)
    assert (row.state, row.compensation_receipt) == ("compensated", "undo_re_1")
    assert the_world.effects == {row.operation_key: 0}


def settle(row: Transaction, outcome: str, *people: Principal, **more: str) -> Transaction:
    for person in people:
        settled = coordinator.resolve(
            row.pk, outcome=outcome, by=person, via="admin", reason="I called them.", **more
        )
    return settled


def test_people_settle_what_stays_in_doubt(approved, the_world, bob, dora):
    the_world.before = [fail(ConnectionError("no route"))] * 2
    sunk, launched = approved("launch", rocket="r1"), approved("launch", rocket="r2")
    execution.commit(sunk.pk)
    execution.commit(launched.pk)
    operator = {"by": bob, "via": "admin", "reason": "I called them."}

    with pytest.raises(InvalidRequest, match="receipt"):
        coordinator.resolve(launched.pk, outcome="committed", **operator)
    with pytest.raises(NotPossible, match="not retry-safe"):
        coordinator.resolve(launched.pk, outcome="retry", **operator)
    settle(launched, "committed", bob, dora, receipt="L-2")
    settle(sunk, "nothing_happened", bob, dora)
    execution.roll_back(sunk.pk)

    assert (after(launched).state, after(launched).receipt) == ("committed", "L-2")
    assert (after(sunk).state, after(sunk).ending_reason) == ("failed", "I called them.")


def test_a_blip_of_the_database_does_not_lose_a_receipt(approved, the_world):
    """Money has moved; the connection dies before it is recorded."""
    row = approved()

    def cut_the_line(name: str) -> None:
        if name == "before record":
            crash_points.hook = lambda name: None
            pid = _backend_pid()
            _terminate(pid)

    crash_points.hook = cut_the_line
    execution.commit(row.pk)

    assert after(row).receipt == "re_1"


def _backend_pid() -> int:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def _terminate(pid: int) -> None:
    def kill() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        connections.close_all()

    thread = threading.Thread(target=kill)
    thread.start()
    thread.join()


def test_leases_of_calls_that_last_are_renewed_together(approved, the_world, settings):
    settings.LEASE_S = 0.9
    may_go_on = threading.Event()
    the_world.before = [lambda: may_go_on.wait(10)] * 3
    rows = [approved("launch", rocket=f"r{number}") for number in range(3)]
    begun_with = {after(row).fencing_token for row in rows}
    ended: list[UUID] = []
    try:
        assert len(execution.Executions(ended.extend).begin([row.pk for row in rows])) == 3
        expiries = {after(row).lease_expires_at for row in rows}
        until(
            lambda: (
                not expiries & (renewed := {after(row).lease_expires_at for row in rows})
                and len(renewed) == 1
            ),
            what="all are renewed in one statement",
        )
    finally:
        may_go_on.set()
    until(lambda: len(ended) == 3)

    assert {after(row).state for row in rows} == {State.COMMITTED}
    assert {after(row).fencing_token for row in rows} == {each + 1 for each in begun_with}
