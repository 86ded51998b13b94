"""Requests that others put into a repository become tasks, and their answers files beside them."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from a2a import states, tasks
from a2a.doors.git_bus import listening
from a2a.doors.git_bus.inbound import receiving
from a2a.doors.git_bus.models import BusRequest, Progress
from a2a.errors import Reason
from a2a.models import Question, Task
from a2a.states import TaskEventKind, TaskState
from ledger.principals import Surface
from tests.agents_at_work import GOOD_INPUT, GOOD_RESULT

pytestmark = pytest.mark.django_db


def fail(task: Task, code: Reason, reason: str) -> None:
    tasks.end(task.pk, states.FAIL, by=task.submitter, via=Surface.REST, code=code, reason=reason)


def test_a_request_becomes_a_task_and_its_result_an_answer(bus, participant, work):
    participant.submit("r-1")
    bus.turn()

    task = Task.objects.get()
    assert (task.state, task.input) == (TaskState.SUBMITTED, GOOD_INPUT)
    assert task.submitted_by == str(bus.row.agent.principal)
    assert participant.names("processing") == ["r-1.json"]

    work(task)
    bus.turn()

    assert bus.response("r-1") == {
        "jsonrpc": "2.0",
        "result": GOOD_RESULT,
        "error": None,
        "id": "r-1",
        "processed_by": "assent_partner",
    }
    assert participant.names("archive") == ["r-1.json"]
    assert participant.names("processing") == participant.names("inbox") == []
    assert participant.log()[:2] == ["Processed r-1", "Claimed r-1 by assent_partner"]
    assert bus.request("r-1").progress == Progress.DONE


def test_the_chain_of_the_task_names_the_commits_that_carried_it(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    work(Task.objects.get())
    bus.turn()

    row = bus.request("r-1")
    carried = row.task.events.filter(kind=TaskEventKind.EXCHANGED).order_by("seq")
    commits = [json.loads(event.details)["commit"] for event in carried]
    assert commits == [row.claim_commit, row.answer_commit]
    participant.pull()
    assert set(commits) <= set(participant.git("log", "--format=%H").split())


def test_our_participant_file_says_which_methods_we_offer(bus, participant):
    bus.turn()

    assert participant.names(".well-known/agents") == ["assent_partner.json"]
    participant_file = json.loads(participant.read(".well-known/agents/assent_partner.json"))
    assert (participant_file["agent_id"], participant_file["inbox_path"]) == (
        "assent_partner",
        "inbox/",
    )
    assert participant_file["methods"] == participant_file["capabilities"] == ["consolidate"]
    head = bus.row.head
    assert bus.turn().head == head, "it is written once"


def test_the_copy_on_disk_can_be_thrown_away_at_any_moment(bus, participant, work, settings):
    participant.submit("r-1")
    bus.turn()
    shutil.rmtree(settings.GIT_BUS_FOLDER)
    work(Task.objects.get())
    row = bus.turn()

    assert bus.response("r-1")["result"] == GOOD_RESULT
    assert row.rewritten_at is None


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (Reason.WORKER_FAILED, -32603),
        (Reason.TIMED_OUT, -32004),
        (Reason.NOT_SIGNED_OFF, -32001),
    ],
)
def test_a_task_that_fails_is_answered_with_an_error(bus, participant, code, number):
    participant.submit("r-1")
    bus.turn()
    fail(Task.objects.get(), code, "The well is dry.")
    bus.turn()

    answer = bus.response("r-1")
    assert answer["result"] is None
    assert (answer["error"]["code"], answer["error"]["message"]) == (number, "The well is dry.")
    assert answer["error"]["data"]["reason"]["code"] == code.value


def test_a_question_that_nobody_answers_is_told_to_the_sender(bus, participant, consolidate):
    participant.submit("r-1")
    bus.turn()
    task, worker = Task.objects.get(), consolidate.agent.principal
    claimed = tasks.claim_task(
        task.pk, by=worker, via=Surface.REST, lease_expires_at=Now() + timedelta(minutes=1)
    )
    question = tasks.questions.ask(
        task.pk,
        agent=worker,
        fencing_token=claimed.fencing_token,
        text="Which year?",
        via=Surface.REST,
    )
    Question.objects.update(expires_at=Now() - timedelta(seconds=1))
    tasks.questions.lapse(question.pk)
    bus.turn()

    error = bus.response("r-1")["error"]
    assert (error["code"], error["data"]["question"]) == (-32003, "Which year?")


def test_input_that_does_not_fit_is_answered_with_what_is_wrong(bus, participant):
    participant.submit("r-1", params={"transcripts": "none"})
    bus.turn()

    error = bus.response("r-1")["error"]
    assert (error["code"], error["data"]["reason"]["code"]) == (-32602, "schema_mismatch")
    assert error["data"]["reason"]["errors"]


def test_what_is_for_others_is_left_and_shown(bus, participant):
    participant.submit("r-1", method="astrology.chart")
    bus.turn()

    row = bus.request("r-1")
    assert (row.progress, row.method) == (Progress.LEFT, "astrology.chart")
    assert "not offered here" in row.problem
    assert participant.names("inbox") == ["r-1.json"]
    assert not Task.objects.exists()


def test_a_method_that_is_offered_later_is_taken_then(bus, participant, consolidate):
    participant.submit("r-1", method="merge")
    bus.turn()
    bus.row.methods.create(method="merge", skill=consolidate.slug)
    bus.turn()

    assert bus.request("r-1").task is not None


def test_what_somebody_else_claims_and_answers_is_followed(bus, participant):
    participant.submit("r-1", method="astrology.chart")
    bus.turn()
    participant.pull()
    participant.git("mv", "inbox/r-1.json", "processing/r-1.json")
    participant.push("Claimed r-1 by ann")
    bus.turn()
    row = bus.request("r-1")
    assert (row.progress, row.processed_by) == (Progress.ELSEWHERE, "Ann")
    assert row.claimed_at is not None

    participant.git("mv", "processing/r-1.json", "archive/r-1.json")
    participant.push("Processed r-1")
    bus.turn()
    assert bus.request("r-1").progress == Progress.DONE


def test_what_somebody_else_gives_back_is_taken(bus, participant):
    bus.turn()
    participant.submit("r-1")
    participant.git("mv", "inbox/r-1.json", "processing/r-1.json")
    participant.push("Claimed r-1 by ann")
    bus.turn()
    assert bus.request("r-1").progress == Progress.ELSEWHERE
    participant.git("mv", "processing/r-1.json", "inbox/r-1.json")
    participant.push("Released r-1")
    bus.turn()

    assert bus.request("r-1").task.input == GOOD_INPUT


def test_requests_are_taken_in_the_order_of_names_a_few_in_each_turn(bus, participant, monkeypatch):
    monkeypatch.setattr(listening, "MOST_CLAIMS", 2)
    for name in ("c", "a", "b"):
        participant.submit(f"r-{name}")
    bus.turn()
    taken = BusRequest.objects.order_by("pk").values_list("request_id", flat=True)
    assert list(taken) == ["r-a", "r-b"]
    bus.turn()
    assert Task.objects.count() == 3


def test_a_flood_of_files_is_read_a_part_in_each_turn(bus, participant, monkeypatch):
    monkeypatch.setattr(receiving, "MOST_READ", 3)
    for number in range(5):
        participant.submit(f"r-{number}", method="astrology.chart")
    bus.turn()
    assert BusRequest.objects.count() == 3
    bus.turn()
    assert BusRequest.objects.filter(progress=Progress.LEFT).count() == 5
