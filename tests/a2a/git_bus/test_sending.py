"""A skill may be done over a bus: its tasks are files there, and the answers come back."""

from __future__ import annotations

import json

import pytest

from a2a import tasks
from a2a.doors.git_bus.models import Progress
from a2a.errors import Reason
from a2a.models import Task
from a2a.states import TaskState
from ledger.principals import Surface

pytestmark = pytest.mark.django_db


def now(task: Task) -> Task:
    task.refresh_from_db()
    return task


def test_a_task_becomes_a_request_and_the_answer_its_result(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()

    participant.pull()
    request = json.loads(participant.read(f"inbox/{bus.sent(task)}.json"))
    assert request["method"] == "text.draft"
    assert request["params"] == {"topic": "tea"}
    assert (request["id"], request["sender_id"]) == (bus.sent(task), "assent_partner")
    assert participant.log()[0] == f"Submitted {bus.sent(task)}"
    assert now(task).state == TaskState.WORKING

    participant.answer(bus.sent(task), result={"text": "Tea is a leaf."})
    bus.turn()

    assert (now(task).state, task.result) == (TaskState.COMPLETED, {"text": "Tea is a leaf."})
    row = task.bus_request
    assert (row.progress, row.processed_by) == (Progress.DONE, "ann_agent")
    assert row.author == "Ann <ann@partner.example>"


def test_who_claims_it_is_told(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    participant.pull()
    participant.git("mv", f"inbox/{bus.sent(task)}.json", f"processing/{bus.sent(task)}.json")
    participant.push("mine")
    bus.turn()

    assert now(task).note == "Ann has claimed it."


def test_an_error_fails_the_task_and_is_kept(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    participant.answer(bus.sent(task), error={"code": -32000, "message": "No ink."})
    bus.turn()

    assert now(task).state == TaskState.FAILED
    assert (task.reason_code, task.reason) == (Reason.REMOTE_FAILED, "No ink.")
    assert task.errors == [{"code": -32000, "message": "No ink."}]


def test_attachments_come_along_once_all_are_there(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    participant.pull()
    folder = f"outbox/{bus.sent(task)}"
    listed = [
        {"name": "table.csv", "type": "text/csv", "description": "T"},
        {"name": "map.png", "type": "image/png", "description": "M"},
    ]
    participant.write(f"{folder}/table.csv", "a,b\n1,2\n")
    participant.write(f"{folder}/metadata.json", json.dumps({"files": listed}))
    participant.answer(bus.sent(task), result={"summary": "Both."})
    bus.turn()
    assert now(task).state == TaskState.WORKING
    assert "not all of the files" in task.bus_request.problem

    (participant.folder / folder / "map.png").write_bytes(b"\x89PNG\0")
    participant.push("The map")
    bus.turn()

    assert now(task).state == TaskState.COMPLETED
    parts = task.artifacts.get(artifact_id="attachments").parts
    assert parts[0]["text"] == "a,b\n1,2\n"
    assert (parts[1]["filename"], parts[1]["raw"]) == ("map.png", "iVBORwA=")


def test_an_answer_that_cannot_be_read_fails_the_task(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    participant.pull()
    participant.write(f"outbox/res_{bus.sent(task)}.json", "{")
    participant.push("Oops")
    bus.turn()

    assert now(task).state == TaskState.FAILED
    assert "Ann <ann@partner.example> published cannot be read" in task.reason


def test_a_revision_names_the_request_that_it_revises(bus, participant, ask_for_draft):
    first = ask_for_draft()
    bus.turn()
    participant.answer(bus.sent(first), result={"text": "Tea."})
    bus.turn()
    second = ask_for_draft(revises=first.pk, parts=[{"text": "Longer, please."}])
    bus.turn()

    participant.pull()
    request = json.loads(participant.read(f"inbox/{bus.sent(second)}.json"))
    assert request["parent_id"] == bus.sent(first)
    assert request["params"] == {"topic": "tea", "comment": "Longer, please."}


def test_a_note_beside_the_input_goes_along(bus, participant, ask_for_draft):
    task = ask_for_draft(parts=[{"data": {"topic": "tea"}}, {"text": "Not too long."}])
    bus.turn()

    participant.pull()
    params = json.loads(participant.read(f"inbox/{bus.sent(task)}.json"))["params"]
    assert params == {"topic": "tea", "comment": "Not too long."}


def test_a_task_that_is_canceled_is_taken_back_while_nobody_has_it(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    tasks.cancel(task.pk, by=task.submitter, via=Surface.REST)
    bus.turn()

    assert participant.names("inbox") == []
    assert participant.log()[0] == f"Withdrawn {bus.sent(task)}"
    assert task.bus_request.__class__.objects.get().progress == Progress.DONE


def test_an_answer_that_comes_too_late_changes_nothing(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    participant.answer(bus.sent(task), result={"text": "late"})
    tasks.cancel(task.pk, by=task.submitter, via=Surface.REST)
    bus.turn()

    assert (now(task).state, task.result) == (TaskState.CANCELED, None)
    assert "after the task had ended" in task.bus_request.problem


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"note": "-----BEGIN OPENSSH PRIVATE KEY-----"}, "secret (private key)"),
        ({"note": "ghp_" + "a" * 36}, "secret (token of GitHub)"),
        ({"note": "x" * 1_100_000}, "bytes"),
    ],
)
def test_what_must_not_be_published_is_not_sent(bus, participant, ask_for_draft, given, why):
    task = ask_for_draft(input=given)
    bus.turn()

    assert (now(task).state, task.reason_code) == (TaskState.FAILED, Reason.REFUSED)
    assert why in task.reason
    assert participant.names("inbox") == []


def test_our_own_request_is_not_taken_by_ourselves(bus, participant, ask_for_draft, consolidate):
    bus.row.methods.filter(method="text.draft").update(method="consolidate-elsewhere")
    task = ask_for_draft()
    bus.row.methods.create(method="consolidate-elsewhere2", skill=consolidate.slug)
    bus.turn()
    bus.turn()

    assert participant.names("inbox") == [f"{bus.sent(task)}.json"]
    assert Task.objects.count() == 1
