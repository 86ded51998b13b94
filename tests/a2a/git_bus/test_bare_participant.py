"""A participant that knows the idea only: no environment, no sender, no JSON in return."""

from __future__ import annotations

import json

import pytest

from a2a.doors.git_bus.models import Progress, Strangers
from a2a.models import Task
from a2a.states import TaskState
from ledger.models import Tenant
from tests.agents_at_work import GOOD_INPUT, GOOD_RESULT

pytestmark = pytest.mark.django_db


@pytest.fixture
def bare(participant):
    """The repository without ``config/``."""
    participant.git("rm", "-q", "config/a2a-environment.json")
    participant.push("No environment")
    return participant


def submit(participant, request_id="r-1"):
    request = {"jsonrpc": "2.0", "method": "consolidate", "params": GOOD_INPUT, "id": request_id}
    participant.write(f"inbox/{request_id}.json", json.dumps(request))
    participant.push("A request")


def test_a_request_without_sender_time_and_environment_is_done(bus, bare, work):
    submit(bare)
    row = bus.turn()

    assert bus.request("r-1").progress == Progress.TAKEN
    assert row.error == ""
    assert row.note == "It has no config/a2a-environment.json: the folders of version 1.0 count."
    work(Task.objects.get())
    bus.turn()
    assert bus.response("r-1")["result"] == GOOD_RESULT


def test_a_tenant_may_demand_sender_and_time_of_a_request(bus, participant):
    Tenant.objects.update(demands_sender=True)
    submit(participant)
    participant.submit("r-2")
    bus.turn()

    error = bus.response("r-1")["error"]
    assert (error["code"], Task.objects.count()) == (-32600, 1)
    assert "sender_id is missing; timestamp is missing" in error["message"]
    assert bus.request("r-2").task.state == TaskState.SUBMITTED


def test_an_environment_that_appears_later_ends_the_note_and_must_name_the_same_folders(bus, bare):
    assert bus.turn().note
    bare.write("config/a2a-environment.json", '{"a2a_environment_version": "1.0"}')
    bare.push("An environment")
    row = bus.turn()
    assert (row.note, row.error) == ("", "")

    folders = {"inbox": "elsewhere"}
    environment = {
        "a2a_environment_version": "1.0",
        "directories_relative_to_repo_root": folders,
    }
    bare.write("config/a2a-environment.json", json.dumps(environment))
    bare.push("Other folders")
    assert "names other folders than before" in bus.turn().error


def test_a_request_without_a_sender_is_asked_about_in_plain_words(bus, participant):
    bus.set(strangers=Strangers.ASK)
    submit(participant)
    bus.turn()

    assert "it names no sender" in bus.request("r-1").admission.questions.get().text


@pytest.mark.parametrize(
    ("name", "content", "kept"),
    [
        ("md", b"# Tea\n\nIt is hot.", {"text": "# Tea\n\nIt is hot."}),
        ("pdf", b"%PDF-\0\xff", {"raw": "JVBERi0A/w=="}),
    ],
)
def test_an_answer_with_another_ending_completes_the_task_as_an_artifact(
    bus, participant, ask_for_draft, name, content, kept
):
    task = ask_for_draft()
    bus.turn()
    request = bus.sent(task)
    participant.pull()
    (participant.folder / f"outbox/res_{request}.{name}").write_bytes(content)
    participant.git("mv", f"inbox/{request}.json", f"archive/{request}.json")
    participant.push(f"Processed {request}")
    bus.turn()

    task.refresh_from_db()
    assert task.state == TaskState.COMPLETED
    assert task.result == {"files": [f"res_{request}.{name}"]}
    parts = task.artifacts.get(artifact_id="answer").parts
    assert [{key: part[key] for key in kept} for part in parts] == [kept]


def test_where_signatures_are_demanded_an_unsigned_answer_of_any_ending_ends_nothing(
    bus, participant, ask_for_draft
):
    bus.set(strangers=Strangers.REFUSE)
    task = ask_for_draft()
    bus.turn()
    participant.pull()
    participant.write(f"outbox/res_{bus.sent(task)}.md", "done")
    participant.push("Processed")
    bus.turn()

    task.refresh_from_db()
    assert not task.is_final
    assert "not signed by anybody" in bus.request(bus.sent(task)).problem


def test_half_written_answers_are_passed_over(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    participant.pull()
    participant.write(f"outbox/res_{bus.sent(task)}.json.tmp", "{")
    participant.write(f"outbox/res_{bus.sent(task)}.swp", "{")
    participant.push("Writing")
    bus.turn()

    task.refresh_from_db()
    assert not task.is_final


def test_a_revision_waits_for_no_json_where_its_parent_was_answered_otherwise(bus, participant):
    participant.write("outbox/res_r-0.md", "an answer of somebody else")
    participant.submit("r-1", parent_id="r-0")
    bus.turn()

    assert bus.request("r-1").progress == Progress.TAKEN


def test_where_people_are_asked_about_strangers_what_cannot_be_read_is_answered(bus, participant):
    bus.set(strangers=Strangers.ASK)
    participant.write("inbox/r-1.json", "{")
    participant.push("Broken")
    bus.turn()

    assert bus.response("r-1")["error"]["code"] == -32700
