"""What plan() held is released, whatever goes wrong between planning and entering."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection, connections

from ledger import contracts, execution
from ledger.api.rendering import render_token
from ledger.contracts import Context, Plan
from ledger.errors import InProgress, InvalidRequest, LedgerError, PlanFailed, UnsafeText
from ledger.foundation.postgres.backend.base import BoundedConnection
from ledger.models import Transaction
from ledger.principals import Principal
from ledger.proof.audit.verification import verify
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal
from tests.ledger.test_answers import end_session, in_another_session, own_pid

pytestmark = pytest.mark.django_db(transaction=True)
HELPDESK = Principal("agent", "acme/helpdesk", "Helpdesk agent")


def propose(key: str = "", *, render=render_token, **said) -> Transaction:
    arguments = {"reference": "order-1", "amount": "48.20"} | said.pop("arguments", {})
    answer = coordinator.prepare(
        Proposal("pay", arguments, **said),
        by=HELPDESK,
        tenant="acme",
        key=key or uuid4().hex,
        via="api",
        render=render,
    )
    return Transaction.objects.get(pk=answer.transaction_id)


def let_go_of_what_was_held(the_world) -> None:
    left = Transaction.objects.get()
    assert (left.state, left.ending) == ("rolling_back", "abandoned")
    execution.roll_back(left.pk)
    assert Transaction.objects.get().state == "aborted"
    assert the_world.holds == set()
    verify()


@pytest.fixture(autouse=True)
def _acme(acme, helpdesk):
    """The tenant and the agent of these tests."""


@pytest.mark.parametrize("name", ["reason", "run_id", "step_id", "traceparent"])
@pytest.mark.parametrize("text", ["a\x00b", "a\u202eb"])
def test_text_that_cannot_be_stored_is_refused_before_anything_is_planned(the_world, name, text):
    with pytest.raises(UnsafeText, match=name):
        propose(**{name: text})

    assert (the_world.plans, the_world.holds) == (0, set())


@pytest.mark.parametrize("name", ["run_id", "step_id", "traceparent"])
def test_text_that_is_too_long_is_refused_before_anything_is_planned(the_world, name):
    with pytest.raises(InvalidRequest, match=name):
        propose(**{name: "x" * 201})

    assert the_world.plans == 0


def test_a_step_id_with_nul_is_a_422_over_rest(as_helpdesk):
    answer = as_helpdesk.propose(step_id="a\x00b")

    assert (answer.status_code, answer.json()["code"]) == (422, "unsafe_text")


PLANS = {
    "a summary that misleads": lambda held: Plan("Pay \u202e", held=held),
    "a warning that misleads": lambda held: Plan("Pay", ["\x00"], held=held),
    "an empty summary": lambda held: Plan(" ", held=held),
    "no such currency": lambda held: Plan("Pay", amount=1, currency="???", held=held),
    "other arguments": lambda held: Plan("Pay", arguments={"amount": "much"}, held=held),
    "an integer without canonical form": lambda held: Plan(
        "Pay", arguments={"reference": "r", "amount": "NaN"}, held=held
    ),
    "no plan at all": lambda held: None,
}


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS)
def test_a_plan_that_cannot_be_shown_lets_go_of_what_it_held(the_world, monkeypatch, make):
    def plan(context: Context):
        return make({"hold": the_world.hold(context.operation_key)})

    monkeypatch.setitem(contracts.tools["pay"].companions, "plan", plan)

    with pytest.raises((LedgerError, TypeError)):
        propose()

    let_go_of_what_was_held(the_world)


def test_a_plan_that_fails_after_it_took_a_hold_lets_go_of_it(the_world, monkeypatch):
    def plan(context: Context) -> Plan:
        the_world.hold(context.operation_key)
        raise ConnectionError("cut")

    monkeypatch.setitem(contracts.tools["pay"].companions, "plan", plan)

    with pytest.raises(PlanFailed):
        propose()

    let_go_of_what_was_held(the_world)


def test_a_database_that_goes_away_between_plan_and_entry_leaks_no_hold(the_world):
    pid = own_pid()
    the_world.planning = lambda: end_session(pid)

    with pytest.raises(DatabaseError):
        propose()

    let_go_of_what_was_held(the_world)


def test_an_answer_that_cannot_be_rendered_leaks_no_hold(the_world):
    def render(row: Transaction, duplicate_of: object) -> str:
        raise RuntimeError("no template")

    with pytest.raises(RuntimeError):
        propose(render=render)

    let_go_of_what_was_held(the_world)


def test_the_same_key_works_again_as_soon_as_the_earlier_hold_is_gone(the_world):
    pid = own_pid()
    the_world.planning = lambda: end_session(pid)
    with pytest.raises(DatabaseError):
        propose("key-1")
    the_world.planning = None

    with pytest.raises(InProgress, match="still being released"):
        propose("key-1")
    execution.roll_back(Transaction.objects.get().pk)

    row = propose("key-1")
    assert row.state == "prepared"
    assert the_world.holds == {row.operation_key}


def test_of_two_proposals_of_one_operation_at_once_only_one_plans(the_world):
    told: list[type[Exception]] = []

    def second() -> None:
        try:
            propose()
        except LedgerError as refusal:
            told.append(type(refusal))
        finally:
            connections.close_all()

    def while_planning() -> None:
        the_world.planning = None
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()

    the_world.planning = while_planning
    row = propose()

    assert (told, the_world.plans) == ([InProgress], 1)
    assert the_world.holds == {row.operation_key}


def end_sessions_with_locks(other: psycopg.Connection) -> None:
    other.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )


@pytest.mark.parametrize("is_own_hold", [True, False])
def test_who_loses_the_operation_after_planning_lets_go_of_its_own_hold_only(
    the_world, monkeypatch, is_own_hold
):
    """The session of its locks died while it planned; somebody else was faster."""
    released: list[str] = []
    plans = iter(["first", "second"] if is_own_hold else ["same", "same"])

    def plan(context: Context) -> Plan:
        held = next(plans)
        if held != "second" and not the_world.plans:
            the_world.plans = 1
            in_another_session(end_sessions_with_locks, connection.settings_dict["NAME"])
            thread = threading.Thread(target=faster)
            thread.start()
            thread.join()
        return Plan("Pay", held={"hold": held})

    def faster() -> None:
        try:
            propose()
        finally:
            connections.close_all()

    companions = contracts.tools["pay"].companions
    monkeypatch.setitem(companions, "plan", plan)
    monkeypatch.setitem(
        companions, "rollback", lambda context: released.append(context.held["hold"])
    )
    row = propose()
    for abandoned in Transaction.objects.filter(state="rolling_back"):
        execution.roll_back(abandoned.pk)

    assert Transaction.objects.get(state="prepared") == row
    assert released == (["first"] if is_own_hold else [])


def test_a_hold_is_kept_while_it_is_not_known_whether_its_row_was_inserted(the_world, monkeypatch):
    """The session of the INSERT waits in its commit, and its client has given up."""
    propose()
    other, pid = connection.copy(), own_pid()
    other.inc_thread_sharing()  # plans run in a thread of their own

    def plan(context: Context) -> Plan:
        held = {"hold": the_world.hold(context.operation_key)}
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(_COPY_OF_ANY_ROW, [str(context.transaction_id), context.operation_key])
        end_session(pid)
        return Plan("Pay", held=held)

    monkeypatch.setitem(contracts.tools["pay"].companions, "plan", plan)
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", "-c lock_timeout=200ms")
    try:
        with pytest.raises(DatabaseError):
            propose(arguments={"reference": "order-2"})
    finally:
        other.close()

    assert "pay:acme:order-2" in the_world.holds


_COPY_OF_ANY_ROW = """
    INSERT INTO ledger_transaction
    SELECT (jsonb_populate_record(
        any_row, jsonb_build_object('id', %s::text, 'operation_key', %s::text)
    )).* FROM ledger_transaction AS any_row LIMIT 1
"""


@pytest.fixture
def pooled() -> Iterator[None]:
    """Sessions from a pool of two, as in a web process; a lock is waited for 0.2 s."""
    database = connection.settings_dict
    before = database["OPTIONS"], database["CONN_MAX_AGE"]
    connection.close()
    options = f"{before[0].get('options', '')} -c lock_timeout=200ms".strip()
    pool = {"connection_class": BoundedConnection, "min_size": 2, "max_size": 2}
    database["OPTIONS"] = {**before[0], "options": options, "pool": pool}
    database["CONN_MAX_AGE"] = 0
    yield
    connection.close()
    connection.close_pool()
    database["OPTIONS"], database["CONN_MAX_AGE"] = before


def test_a_wait_for_a_lock_in_vain_leaves_no_lock_of_the_request_in_the_pool(the_world, pooled):
    def in_vain(other: psycopg.Connection) -> None:
        the_world.planning = lambda: other.execute("BEGIN; LOCK ledger_transaction IN SHARE MODE")
        with pytest.raises(OperationalError):
            propose("key-1")
        other.execute("ROLLBACK")

    in_another_session(in_vain, connection.settings_dict["NAME"])
    the_world.planning = None

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert cursor.fetchone() == (0,)
    assert propose("key-1").state == "prepared"
