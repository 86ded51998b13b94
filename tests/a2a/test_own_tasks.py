"""Own tasks while a tool plans slowly: whoever else looks, crashes or ends the task meanwhile."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from django.db import connection
from django.db.models.functions import Now
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from a2a import builtin, submissions, sweep as rounds, tasks
from a2a.builtin import runs
from a2a.models import Task
from a2a.states import FINAL, TaskState
from a2a.submissions import Submission
from ledger import execution
from ledger.agents.callers import Caller
from ledger.errors import LedgerError, PlanFailed
from ledger.execution import crash_points
from ledger.models import IdempotencyKey, Scope, Transaction
from ledger.principals import SWEEPER, Principal
from ledger.proof.audit import verification
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.agents_at_work import GOOD_INPUT
from tests.forgery import move_deadline
from tests.toolbox.world import world

pytestmark = pytest.mark.django_db(transaction=True)

ORCHESTRATOR = Principal("agent", "acme/orchestrator", "Orchestrator")
ALICE = Principal("user", "1", "Alice Moreau")
BOSS = Principal("agent", "acme/boss", "Boss")
NO_EFFECT = {State.REFUSED, State.ABORTED, State.FAILED, State.ROLLING_BACK}


class Crash(BaseException):
    """The process is gone: nothing after this line of it happens."""


def elsewhere(action):
    """Run in another process' place: a thread with a database session of its own."""
    trouble: list[BaseException] = []

    def run():
        try:
            action()
        except BaseException as error:
            trouble.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for the plan"
    if trouble:
        raise trouble[0]


def while_planning(action):
    """The next plan goes on until ``action``, done by somebody else, is over."""

    def plan():
        world.planning = None
        elsewhere(action)

    world.planning = plan


def submit(reference="order-7"):
    caller = Caller(ORCHESTRATOR, "acme", frozenset({Scope.SUBMIT, Scope.PROPOSE}))
    arguments = {"reference": reference, "amount": "48.20"}
    value = {"tool": "pay", "arguments": arguments, "reason": "late"}
    return submissions.submit(
        Submission(skill="prepare_transaction", input=value), caller=caller, via="a2a"
    ).task


def a_parent_of(child):
    """The task of another agent from which this one was delegated."""
    caller = Caller(BOSS, "acme", frozenset({Scope.SUBMIT}))
    submission = Submission(skill="consolidate", input=GOOD_INPUT)
    parent = submissions.submit(submission, caller=caller, via="a2a").task
    Task.objects.filter(pk=child.pk).update(parent=parent)
    return parent


def lease_runs_out(**only):
    late = Now() - timedelta(seconds=1)
    Task.objects.filter(lease_expires_at__isnull=False, **only).update(lease_expires_at=late)


def time_runs_out(**only):
    Task.objects.filter(expires_at__isnull=False, **only).update(
        expires_at=Now() - timedelta(seconds=1)
    )


def sweep():
    rounds.sweep()
    for pk in Transaction.objects.filter(state="rolling_back").values_list("pk", flat=True):
        execution.roll_back(pk)  # what an earlier plan held
    Task.objects.filter(next_attempt_at__isnull=False).update(next_attempt_at=Now())
    for task_id in builtin.due():
        builtin.begin(task_id)


def test_a_sweeper_leaves_alone_what_its_request_is_still_planning(acme):
    while_planning(sweep)

    task = submit()

    assert (task.state, world.plans) == ("auth-required", 1)
    assert Transaction.objects.get().state == "prepared"


def test_a_task_whose_lease_ran_out_while_it_plans_is_not_failed(acme):
    def another_takes_it_up():
        lease_runs_out()
        sweep()

    while_planning(another_takes_it_up)
    task = submit()
    assert Task.objects.get(pk=task.pk).state in {"submitted", "auth-required"}

    sweep()

    task.refresh_from_db()
    assert (task.state, task.transaction) == ("auth-required", Transaction.objects.get())


def test_a_tool_that_does_not_answer_is_asked_again_later(acme):
    def no_answer():
        raise PlanFailed("the provider is down")

    world.planning = no_answer
    task = submit()
    assert (task.state, task.reason) == ("submitted", "")
    assert task.next_attempt_at is not None

    world.planning = None
    sweep()

    assert Task.objects.get(pk=task.pk).state == "auth-required"


def test_a_task_waits_again_when_an_approval_is_undone(acme, alice):
    task, row = submit(), Transaction.objects.get()
    said = {"digest": row.intent_digest, "by": alice, "via": "web"}

    def state():
        sweep()
        return Task.objects.get(pk=task.pk).state

    coordinator.approve(row.pk, undo_seconds=30, **said)
    assert state() == "working"
    coordinator.withdraw_approval(row.pk, by=alice, via="web")
    assert state() == "auth-required"

    coordinator.approve(row.pk, **said)
    execution.commit(row.pk)
    assert state() == "completed"


def test_canceled_while_it_plans_it_can_never_be_signed_off(acme, alice):
    while_planning(
        lambda: tasks.cancel(Task.objects.get().pk, by=ORCHESTRATOR, via="a2a", reason="stop")
    )

    task = submit()

    assert task.state == "canceled"
    assert not Transaction.objects.exclude(state__in=NO_EFFECT).exists()


def test_its_time_is_over_while_it_plans_and_it_can_never_be_signed_off(acme):
    def late():
        time_runs_out()
        rounds.sweep()

    while_planning(late)
    task = submit()

    assert (task.state, task.reason_code) == ("failed", "timed_out")
    assert not Transaction.objects.exclude(state__in=NO_EFFECT).exists()


def test_a_canceled_parent_takes_back_what_its_child_proposed(consolidate):
    child = submit()
    parent = a_parent_of(child)

    tasks.cancel(parent.pk, by=BOSS, via="a2a", reason="not needed")

    child.refresh_from_db()
    assert (child.state, child.transaction.state) == ("canceled", "rolling_back")
    (event,) = child.transaction.events.filter(kind="canceled")
    assert (event.principal, event.reason) == ("agent:acme/boss", "The task above it was canceled.")
    verification.verify()


def test_a_signed_off_child_goes_on_when_its_parent_is_canceled(consolidate, alice):
    child = submit()
    parent = a_parent_of(child)
    row = Transaction.objects.get()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    tasks.cancel(parent.pk, by=BOSS, via="a2a", reason="not needed")
    execution.commit(row.pk)

    assert Task.objects.get(pk=child.pk).state == "completed"


@pytest.mark.parametrize("line", ["own task claimed", "own task proposed", "own task tied"])
def test_a_process_that_dies_at_any_line_is_followed_by_another(acme, line):
    def die(name):
        if name == line:
            raise Crash

    crash_points.hook = die
    with pytest.raises(Crash):
        submit()
    crash_points.hook = lambda name: None
    lease_runs_out()
    for _ in range(2):
        sweep()

    task = Task.objects.get()
    assert (task.state, task.transaction) == ("auth-required", Transaction.objects.get())


# --- whatever happens in whatever order -----------------------------------------------------

MEANWHILE = st.lists(
    st.sampled_from(["sweep", "lease", "time", "cancel", "approve", "work", "expire"]), max_size=3
)
LINES = ["", "own task claimed", "own task proposed", "own task tied"]


class OwnTasks(RuleBasedStateMachine):
    """Random submits, slow plans, sweeps, crashes, lapses, cancels, decisions and work."""

    ids = Bundle("ids")

    def __init__(self):
        super().__init__()
        world.reset()
        self.number = 0
        self.task_ids = []

    @rule(target=ids, meanwhile=MEANWHILE, dies_at=st.sampled_from(LINES), answers=st.booleans())
    def submit(self, meanwhile, dies_at, answers):
        self.number += 1
        before = set(Task.objects.values_list("pk", flat=True))
        self._act(lambda: submit(f"order-{self.number}"), meanwhile, dies_at, answers)
        (new,) = set(Task.objects.values_list("pk", flat=True)) - before
        return new

    @rule(pk=ids, meanwhile=MEANWHILE, dies_at=st.sampled_from(LINES), answers=st.booleans())
    def another_process_looks(self, pk, meanwhile, dies_at, answers):
        Task.objects.filter(pk=pk, next_attempt_at__isnull=False).update(next_attempt_at=Now())
        self._act(lambda: builtin.begin(pk), meanwhile, dies_at, answers)

    @rule(pk=ids, what=st.sampled_from(["lease", "time", "cancel", "approve", "work", "expire"]))
    def something_happens(self, pk, what):
        self._do(what, pk)

    @rule()
    def sweeps(self):
        rounds.sweep()

    def _act(self, action, meanwhile, dies_at, answers):
        def plan():
            world.planning = None
            pk = Task.objects.order_by("-pk").first().pk
            elsewhere(lambda: [self._do(what, pk) for what in meanwhile])
            if not answers:
                raise ConnectionError("the provider is down")

        def die(name):
            if name == dies_at:
                crash_points.hook = lambda name: None
                raise Crash

        world.planning, crash_points.hook = plan, die
        with suppress(Crash):
            action()
        world.planning, crash_points.hook = None, lambda name: None

    def _do(self, what, pk):
        row = Transaction.objects.filter(tasks=pk).first() or self._entered(pk)
        match what:
            case "sweep":
                rounds.sweep()
                builtin.begin(pk)
            case "lease":
                lease_runs_out(pk=pk)
                rounds.sweep()
            case "time":
                time_runs_out(pk=pk)
                rounds.sweep()
            case "cancel":
                with suppress(LedgerError):
                    tasks.cancel(pk, by=ORCHESTRATOR, via="a2a", reason="stop")
            case "approve" if row is not None:
                with suppress(LedgerError):
                    coordinator.approve(row.pk, digest=row.intent_digest, by=ALICE, via="web")
            case "expire" if row is not None:
                move_deadline(row.pk)
                sweeper.expire_what_is_due()
            case "work" if row is not None:
                execution.commit(row.pk)
                execution.roll_back(row.pk)

    def _entered(self, pk):
        key = IdempotencyKey.objects.filter(key=f"task:{pk}").first()
        return key.transaction if key else None

    @invariant()
    def what_ended_badly_moves_no_money(self):
        for task in Task.objects.filter(state__in=["failed", "canceled", "rejected"]):
            row = task.transaction or self._entered(task.pk)
            assert row is None or row.state in NO_EFFECT, (task.state, row.state)

    @invariant()
    def completed_means_committed(self):
        for task in Task.objects.filter(state="completed"):
            assert task.transaction.state == State.COMMITTED

    @invariant()
    def one_task_has_one_transaction_at_the_most(self):
        assert Transaction.objects.count() <= Task.objects.count()
        assert all(count <= 1 for count in world.effects.values())

    def teardown(self):
        """When the processes live and the tools answer, every task ends or waits for a person."""
        for _ in range(4):
            lease_runs_out()
            sweep()
            for pk in Transaction.objects.values_list("pk", flat=True):
                execution.commit(pk)
                execution.roll_back(pk)
        rounds.sweep()
        for task in Task.objects.all():
            waits = task.state == TaskState.AUTH_REQUIRED and task.transaction.state == "prepared"
            assert waits or task.state in FINAL, (task.state, task.transaction)
        self.what_ended_badly_moves_no_money()
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            for table in ("a2a_message", "a2a_artifact", "a2a_question", "a2a_task"):
                cursor.execute(f"DELETE FROM {table}")
            for table in ("decision", "delivery", "idempotencykey", "event", "transaction"):
                cursor.execute(f"DELETE FROM ledger_{table}")
            cursor.execute("SET session_replication_role = DEFAULT")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_whatever_happens_while_it_plans_a_task_never_says_otherwise_than_its_transaction(acme):
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        OwnTasks,
        settings=settings(
            max_examples=25,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_task_of_the_hub_is_timed_out_only_together_with_its_proposal(acme):
    world.planning = lambda: (_ for _ in ()).throw(PlanFailed("down"))
    task = submit()
    time_runs_out()

    tasks.time_out(task.pk)
    assert Task.objects.get(pk=task.pk).state == "submitted"
    runs.time_out(task.pk)

    assert Task.objects.get(pk=task.pk).reason_code == "timed_out"
    assert IdempotencyKey.objects.get(key=f"task:{task.pk}").transaction is None
    assert str(SWEEPER) != task.owner
