"""Every state by every move of a task: either it moves or it is refused and nothing was written."""

from __future__ import annotations

import itertools

import pytest
from django.utils import timezone

from a2a import states
from a2a.errors import TaskNotFound, TaskNotPossible
from a2a.models import Task
from a2a.states import FINAL, MOVES, TaskState
from a2a.tasks.transitions import advance
from ledger.models import Event, new_id
from ledger.principals import SWEEPER
from ledger.states import Move
from tests.cases import Failures
from tests.tables import taken_back

pytestmark = pytest.mark.django_db
WALKED = [move for move in MOVES if move.sources]


def task_in(state: TaskState) -> Task:
    return Task.objects.create(
        tenant="acme",
        context_id="c",
        state=state,
        skill_slug="s",
        submitted_by="agent:acme/x",
        submitted_by_name="x",
        payload_hash="0",
        reason_code="refused",
        ended_at=timezone.now() if state in FINAL else None,
    )


def test_a_move_starts_only_where_the_map_says(acme):
    failures = Failures()
    for state, move in itertools.product(TaskState, WALKED):
        with taken_back(), failures.of(f"{move} of {state}"):
            task = task_in(state)
            if state in move.sources:
                _assert_moved(task, move)
            else:
                _assert_refused_without_a_trace(task, move)

    assert not failures


def _assert_moved(task: Task, move: Move) -> None:
    moved = advance(task.pk, move, by=SWEEPER, via="system")
    assert moved.state == (move.target or task.state)
    assert (moved.ended_at is not None) == (moved.state in FINAL)
    event = Event.objects.get(subject=task.pk)
    assert (event.kind, event.to_state) == (move.kind, moved.state)


def _assert_refused_without_a_trace(task: Task, move: Move) -> None:
    with pytest.raises(TaskNotPossible) as refusal:
        advance(task.pk, move, by=SWEEPER, via="system")
    assert refusal.value.snapshot.state == task.state
    assert Event.objects.count() == 0
    assert Task.objects.get().state == task.state


def test_nothing_leaves_a_terminal_state():
    leaving = {source for move in MOVES if move.target is not None for source in move.sources}

    assert leaving & FINAL == set()


def test_a_move_of_an_unknown_task_is_refused():
    with pytest.raises(TaskNotFound):
        advance(new_id(), states.CANCEL, by=SWEEPER, via="system")
