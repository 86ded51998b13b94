"""A request may revise one that was answered before."""

from __future__ import annotations

import pytest

from a2a import states, tasks
from a2a.doors.git_bus.models import Progress
from a2a.errors import Reason
from a2a.models import Task
from ledger.principals import Surface
from tests.agents_at_work import GOOD_INPUT

pytestmark = pytest.mark.django_db


@pytest.fixture
def answered(bus, participant, work) -> Task:
    participant.submit("r-1")
    bus.turn()
    task = Task.objects.get()
    work(task)
    bus.turn()
    participant.pull()
    return task


def test_new_params_lie_on_top_of_what_was_done(bus, participant, answered):
    participant.submit("r-2", params={"comment": "Keep the table."}, parent_id="r-1")
    bus.turn()

    task = bus.request("r-2").task
    assert (task.revises, task.input) == (answered, GOOD_INPUT)
    assert task.messages.get().parts == [{"text": "Keep the table."}]
    assert task.context_id == answered.context_id


def test_whole_params_are_the_new_input(bus, participant, answered):
    params = {"transcripts": ["three"]}
    participant.submit("r-2", params=params, parent_id="r-1")
    bus.turn()

    assert bus.request("r-2").task.input == params


def test_two_revisions_of_one_request_are_two_tasks(bus, participant, answered):
    participant.submit("r-2", parent_id="r-1")
    participant.submit("r-3", parent_id="r-1")
    bus.turn()

    assert {task.revises for task in Task.objects.exclude(pk=answered.pk)} == {answered}


def test_a_revision_waits_until_its_parent_is_answered(bus, participant, work):
    participant.submit("r-1")
    participant.submit("r-2", parent_id="r-1")
    participant.submit("r-9", parent_id="nothing")
    bus.turn()
    for request_id, parent in (("r-2", "r-1"), ("r-9", "nothing")):
        row = bus.request(request_id)
        assert row.progress == Progress.LEFT
        assert row.problem == f"It revises '{parent}', whose answer is not published."

    work(Task.objects.get())
    bus.turn()
    bus.turn()
    assert bus.request("r-2").progress == Progress.TAKEN
    assert bus.request("r-9").progress == Progress.LEFT


def test_what_failed_can_be_revised(bus, participant):
    participant.submit("r-1")
    bus.turn()
    first = Task.objects.get()
    tasks.end(
        first.pk,
        states.FAIL,
        by=first.submitter,
        via=Surface.REST,
        code=Reason.WORKER_FAILED,
        reason="no",
    )
    bus.turn()
    participant.pull()
    participant.submit("r-2", parent_id="r-1")
    bus.turn()

    assert bus.request("r-2").task.revises == first


def test_the_answer_to_a_revision_names_its_parent(bus, participant, answered, work):
    participant.submit("r-2", parent_id="r-1")
    bus.turn()
    work(bus.request("r-2").task)
    bus.turn()

    assert bus.response("r-2")["result"]["parent_id"] == "r-1"
