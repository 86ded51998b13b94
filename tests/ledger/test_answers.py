"""An answer in hand is never thrown away: outages, interruptions, and receipts that come late."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from django.db import DatabaseError, connection, connections
from django.db.models.functions import Now

from approvals.desk.inbox import inbox
from ledger import contracts, execution
from ledger.errors import NotPossible, OperationHeld
from ledger.execution import crash_points, leases, recording
from ledger.execution.tool_calls import Done
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.proof.audit.verification import verify
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.conftest import propose
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


def after(row: Transaction) -> Transaction:
    return Transaction.objects.get(pk=row.pk)


def kinds(row: Transaction) -> list[str]:
    return [event.kind for event in row.events.order_by("seq")]


def settle(row: Transaction, outcome: str, *people: Principal, **more: str) -> None:
    for person in people:
        coordinator.resolve(
            row.pk, outcome=outcome, by=person, via="admin", reason="I looked.", **more
        )


def in_another_session(act: Callable[[psycopg.Connection], object], name: str = "postgres") -> None:
    parameters = connection.get_connection_params()
    own = {
        name: parameters[name]
        for name in ("host", "port", "user", "password")
        if parameters.get(name)
    }
    with psycopg.connect(dbname=name, autocommit=True, **own) as other:
        act(other)


def end_session(pid: int) -> None:
    in_another_session(lambda other: other.execute("SELECT pg_terminate_backend(%s)", [pid]))


def own_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


class Outage:
    """The database takes no connections and has ended those that there were."""

    def __init__(self) -> None:
        self.name = connection.settings_dict["NAME"]
        # Sessions from before belong to threads of other tests, which would find them broken.
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            )
            self.since = cursor.fetchone()[0]

    def begin(self) -> None:
        def close(other: psycopg.Connection) -> None:
            other.execute(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS false')
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND backend_start >= %s",
                [self.name, self.since],
            )

        in_another_session(close)

    def end(self) -> None:
        in_another_session(
            lambda other: other.execute(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS true')
        )


@pytest.fixture
def outage():
    outage = Outage()
    yield outage
    outage.end()
    connections.close_all()


# --- outages ---------------------------------------------------------------------------------


def test_a_session_that_ends_during_a_long_call_does_not_cost_the_answer(
    approved, the_world, settings, monkeypatch
):
    settings.LEASE_S = 1.5
    tool = contracts.tools["launch"]
    patient = replace(tool.contract, timeout=timedelta(seconds=30))
    monkeypatch.setattr(tool, "contract", patient)
    row = approved("launch", rocket="r1")
    pid = own_pid()

    def session_ends() -> None:
        end_session(pid)
        since = after(row).lease_expires_at
        until(lambda: after(row).lease_expires_at > since, what="the lease is renewed again")

    the_world.before = [session_ends]
    execution.commit(row.pk)

    assert (after(row).state, after(row).receipt) == ("committed", "re_1")
    assert kinds(row) == ["prepared", "approved", "claimed", "committed"]


class TimeLimit(BaseException):
    """What a supervisor raises in the worker that waits."""


def test_an_interrupted_worker_still_records_what_the_tool_answers(approved, the_world):
    release = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        signal.pthread_kill(main, signal.SIGUSR1)
        release.wait(10)

    def stop(number: int, frame: object) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGUSR1, stop)
    the_world.before = [interrupt]
    row = approved("launch", rocket="r1")
    try:
        with pytest.raises(TimeLimit):
            execution.commit(row.pk)
    finally:
        signal.signal(signal.SIGUSR1, before)
    release.set()

    until(lambda: after(row).state == State.COMMITTED, what="the answer is recorded")
    assert after(row).receipt == "re_1"


@pytest.mark.slow
def test_a_receipt_outlasts_a_fail_over_of_the_database(approved, the_world, outage):
    """Longer than the six seconds after which a worker once gave up."""
    row = approved()

    def fail_over(name: str) -> None:
        if name == "before record":
            crash_points.hook = lambda name: None
            outage.begin()
            threading.Timer(8, outage.end).start()

    crash_points.hook = fail_over
    execution.commit(row.pk)

    assert (after(row).state, after(row).receipt) == ("committed", "re_1")


def test_a_receipt_that_cannot_be_recorded_stands_in_the_log(
    approved, the_world, outage, monkeypatch, caplog
):
    monkeypatch.setattr(recording, "RECORD_FOR_S", 0.3)
    row = approved()

    def disaster(name: str) -> None:
        if name == "before record":
            outage.begin()

    crash_points.hook = disaster
    with caplog.at_level(logging.ERROR), pytest.raises(DatabaseError):
        execution.commit(row.pk)

    last = caplog.records[-1]
    assert last.levelno == logging.ERROR
    for needed in ("GIVEN UP", str(row.pk), row.operation_key, "receipt re_1"):
        assert needed in last.getMessage()


# --- the lease, looked at right before the call ------------------------------------------------


def stand_still(row: Transaction, settings) -> Callable[[str], None]:
    """At the last line before the call, until the lease has run out and others have noticed."""

    def others_notice() -> bool:
        Transaction.objects.filter(pk=row.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
        sweeper.doubt_lapsed_leases()
        return after(row).state == State.IN_DOUBT

    def freeze(name: str) -> None:
        if name == "before execute":
            crash_points.hook = lambda name: None
            until(others_notice)
            thaws = leases.clock() + settings.LEASE_S
            until(lambda: leases.clock() > thaws)
            settings.LEASE_S = 15

    return freeze


def test_a_worker_that_stood_still_until_its_lease_ended_does_not_call(
    approved, the_world, settings
):
    settings.LEASE_S = 0.5
    row = approved("launch", rocket="r1")
    crash_points.hook = stand_still(row, settings)

    execution.commit(row.pk)
    # Also when the worker gave the call up meanwhile.
    until(lambda: after(row).state == State.ROLLING_BACK)
    execution.roll_back(row.pk)

    assert the_world.effects == {}
    assert after(row).state == State.FAILED
    assert "did not call the tool" in after(row).error


def test_what_is_safe_to_repeat_is_done_by_the_next_worker_after_one_stood_still(
    approved, the_world, settings
):
    settings.LEASE_S = 0.5
    row = approved()
    crash_points.hook = stand_still(row, settings)

    execution.commit(row.pk)
    assert the_world.effects == {}
    execution.commit(row.pk)

    assert after(row).state == State.COMMITTED
    assert the_world.effects == {row.operation_key: 1}


def test_a_lease_that_ran_out_unnoticed_is_taken_again_before_the_call(
    approved, the_world, settings
):
    settings.LEASE_S = 1.0
    row = approved("launch", rocket="r1")

    def freeze(name: str) -> None:
        if name == "after claim":
            thawed = leases.clock() + 1.1
            until(lambda: leases.clock() > thawed)

    crash_points.hook = freeze
    execution.commit(row.pk)

    assert after(row).state == State.COMMITTED


# --- receipts that come late --------------------------------------------------------------------


@pytest.fixture
def settled_too_early(approved, the_world, bob, dora):
    """People said that nothing happened; then the worker that was silent brings its receipt."""

    def make(rocket: str = "r1") -> Transaction:
        row = approved("launch", rocket=rocket)
        late = execution.claim(row.pk)
        Transaction.objects.filter(pk=row.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
        sweeper.doubt_lapsed_leases()
        settle(row, "nothing_happened", bob, dora)
        execution.roll_back(row.pk)
        recording.record(late, Done({"receipt_id": "late_1"}))
        return after(row)

    return make


def test_a_receipt_that_comes_too_late_is_sealed_and_put_before_operators(settled_too_early):
    row = settled_too_early()

    event = row.events.order_by("seq").last()
    waits = inbox.needs_somebody(frozenset({"acme"}))
    assert (row.state, row.receipt, row.late_receipt) == ("failed", "", "late_1")
    assert (event.kind, event.to_state) == ("late_receipt", "failed")
    assert '"receipt":"late_1"' in event.details
    assert list(waits) == [row]
    verify()


def test_the_operation_is_not_prepared_again_before_a_person_has_looked(
    settled_too_early, bob, dora
):
    row = settled_too_early()

    with pytest.raises(OperationHeld, match=str(row.pk)):
        propose("launch", rocket="r1")
    settle(row, "not_ours", bob, dora)

    assert propose("launch", rocket="r1").state == State.PREPARED


def test_what_was_prepared_and_signed_off_meanwhile_is_not_begun(
    approved, the_world, settled_too_early, alice, bob, dora
):
    """Proposed again in the time between the wrong word and the late receipt."""
    row = approved("launch", rocket="r1")
    late = execution.claim(row.pk)
    Transaction.objects.filter(pk=row.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    sweeper.doubt_lapsed_leases()
    settle(row, "nothing_happened", bob, dora)
    execution.roll_back(row.pk)
    again = approved("launch", rocket="r1")
    recording.record(late, Done({"receipt_id": "late_1"}))

    execution.commit(again.pk)

    assert (after(again).state, the_world.effects) == ("approved", {})
    with pytest.raises(NotPossible, match="has this operation by now"):
        settle(row, "keep_receipt", bob)
    settle(again, "withdraw", bob)
    execution.roll_back(again.pk)
    settle(row, "keep_receipt", bob, dora)
    assert (after(row).state, after(row).receipt) == ("committed", "late_1")
    assert after(again).state == State.ABORTED


def test_operators_keep_a_late_receipt_and_the_row_is_committed_after_all(
    settled_too_early, bob, dora
):
    row = settled_too_early()

    settle(row, "keep_receipt", bob, dora)

    row = after(row)
    assert (row.state, row.receipt, row.late_receipt, row.ending) == ("committed", "late_1", "", "")
    assert kinds(row)[-3:] == ["late_receipt", "settlement_proposed", "receipt_kept"]
    verify()


def test_of_two_operators_with_different_words_one_wins_and_the_other_is_told(
    settled_too_early, bob, dora
):
    row = settled_too_early()
    settle(row, "keep_receipt", bob)
    words = {"keep_receipt": dora, "not_ours": dora, "dealt_with": dora}
    told: list[str] = []

    def say(outcome: str, person: Principal) -> None:
        try:
            settle(row, outcome, person)
        except NotPossible as refusal:
            told.append(refusal.detail)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=say, args=pair) for pair in words.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert after(row).state == State.COMMITTED
    assert len(told) == 2
    assert kinds(row).count("receipt_kept") == 1


def test_two_workers_that_bring_the_same_late_receipt_are_one_event(settled_too_early):
    row = settled_too_early()
    lease = leases.Lease(row, 1)

    def bring() -> None:
        try:
            recording.record(lease, Done({"receipt_id": "late_2"}))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=bring) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert kinds(row).count("late_receipt") == 2
    assert after(row).late_receipt == "late_2"


def test_a_receipt_that_is_known_already_is_no_news(approved, the_world):
    row = approved()
    first = execution.claim(row.pk)
    Transaction.objects.filter(pk=row.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    sweeper.doubt_lapsed_leases()
    execution.commit(row.pk)

    recording.record(first, Done({"receipt_id": after(row).receipt}))

    assert "late_receipt" not in kinds(row)


def test_a_receipt_of_an_earlier_attempt_settles_what_is_in_doubt(approved, the_world):
    """Both attempts were of one operation; a receipt proves its effect."""
    row = approved()
    first = execution.claim(row.pk)
    Transaction.objects.filter(pk=row.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    sweeper.doubt_lapsed_leases()
    the_world.before = [_cut]
    execution.commit(row.pk)
    assert (after(row).state, after(row).fencing_token) == ("in_doubt", 2)

    recording.record(first, Done({"receipt_id": "re_early"}))

    assert (after(row).state, after(row).receipt) == ("committed", "re_early")


def _cut() -> None:
    raise ConnectionError("cut")


# --- what a tool returns ------------------------------------------------------------------------


def _cycle(receipt: str) -> dict:
    result: dict = {"receipt_id": receipt}
    result["itself"] = result
    return result


class _Silent:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda receipt: {"receipt_id": receipt, "pdf": b"\xff\x00"}, id="bytes"),
        pytest.param(_cycle, id="cycle"),
        pytest.param(lambda receipt: {"receipt_id": receipt, "n": 10**5000}, id="integer"),
        pytest.param(lambda receipt: {"receipt_id": receipt, "x": _Silent()}, id="no repr"),
        pytest.param(lambda receipt: {"receipt_id": receipt, 7: {(1, 2): {3}}}, id="keys"),
    ],
)
def test_a_result_that_cannot_be_stored_as_it_is_does_not_put_the_receipt_in_doubt(
    approved, the_world, result
):
    the_world.result = result
    row = approved("launch", rocket="r1")

    execution.commit(row.pk)

    assert (after(row).state, after(row).receipt) == ("committed", "re_1")


def test_what_an_exception_says_stays_with_operators(
    as_helpdesk, as_alice, approved, the_world, helpdesk
):
    def leak() -> None:
        raise ConnectionError("https://user:hunter2@payments.internal/")

    the_world.before = [leak]
    row = approved("launch", rocket="r1")
    execution.commit(row.pk)

    read = as_helpdesk.get(f"/transactions/{row.pk}").content.decode()
    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    sealed = " ".join(event.reason + event.details for event in row.events.all())
    assert "hunter2" not in read + page + sealed
    assert "ConnectionError (error " in read
    assert "hunter2" in after(row).error_detail
