"""Files that are no requests, requests that come twice, and what others leave in the queue."""

from __future__ import annotations

import json
import os

import pytest

from a2a.doors.git_bus.models import Progress
from a2a.models import Task
from tests.agents_at_work import GOOD_RESULT

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "code", "fault"),
    [
        ("{", -32700, "not one JSON object"),
        ("", -32700, "not one JSON object"),
        ("{} {}", -32700, "not one JSON object"),
        ('["r-1"]', -32700, "not one JSON object"),
        ('{"a": NaN}', -32700, "not one JSON object"),
        ("{}", -32600, 'jsonrpc is not "2.0"'),
        ("[" * 100_000, -32700, "not one JSON object"),
        (json.dumps({"x": "y" * 1_100_000}), -32600, "more than 1048576 bytes"),
    ],
)
def test_what_cannot_be_read_is_answered_with_an_error(bus, participant, text, code, fault):
    participant.write("inbox/r-1.json", text)
    participant.push("Submitted r-1")
    bus.turn()

    error = bus.response("r-1")["error"]
    assert error["code"] == code
    assert fault in error["message"]
    assert participant.names("archive") == ["r-1.json"]
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"jsonrpc": "1.0"}, "jsonrpc"),
        ({"id": "r-2"}, "id is not the name of the file"),
        ({"method": ""}, "method"),
        ({"params": []}, "params"),
        ({"sender_id": 7}, "sender_id"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"parent_id": "../r"}, "parent_id"),
        ({"parent_id": "r-1"}, "own parent"),
    ],
)
def test_a_wrong_member_is_named(bus, participant, changed, fault):
    participant.submit("r-1", **{"timestamp": "2026-11-22T10:00:00Z", **changed})
    bus.turn()

    error = bus.response("r-1")["error"]
    assert error["code"] == -32600
    assert fault in error["message"]


def test_members_that_nobody_knows_are_ignored(bus, participant):
    participant.submit("r-1", **{"$schema_comment": "hello", "priority": 9})
    bus.turn()

    assert bus.request("r-1").progress == Progress.TAKEN


@pytest.mark.parametrize("name", ["r 1.json", "con.json", "r-1.txt", "é.json", "x" * 130 + ".json"])
def test_names_that_can_be_no_requests_are_shown_and_left(bus, participant, name):
    participant.write(f"inbox/{name}", "{}")
    participant.push("What is this?")
    row = bus.turn()

    assert len(row.unusable) == 1
    assert participant.names("inbox") == [name]


@pytest.mark.parametrize("name", [".hidden.json", "r-1.json.tmp", "r-1.json~"])
def test_files_that_somebody_is_still_writing_are_passed_over(bus, participant, name):
    participant.write(f"inbox/{name}", "{}")
    participant.push("Half")

    assert bus.turn().unusable == []


def test_ids_that_differ_in_case_only_are_not_both_taken(bus, participant):
    participant.submit("R-1")
    participant.submit("r-1")
    row = bus.turn()

    assert Task.objects.count() == 1
    assert row.unusable == ["r-1.json: differs from R-1 in case only"]


def test_a_symbolic_link_is_not_followed_and_not_touched(bus, participant):
    os.symlink("/etc/passwd", participant.folder / "inbox" / "r-1.json")
    participant.push("Submitted r-1")
    bus.turn()

    assert bus.request("r-1").progress == Progress.PROBLEM
    assert "no regular file" in bus.request("r-1").problem
    assert participant.names("inbox") == ["r-1.json"]


def test_the_same_request_again_is_removed_and_its_answer_stays(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    work(Task.objects.get())
    bus.turn()
    participant.pull()
    participant.write("inbox/r-1.json", participant.read("archive/r-1.json"))
    participant.push("Submitted r-1")
    bus.turn()

    participant.pull()
    assert participant.log()[0] == "Duplicate r-1"
    assert participant.names("inbox") == []
    assert bus.response("r-1")["result"] == GOOD_RESULT
    assert Task.objects.count() == 1


def test_another_request_of_an_id_that_was_answered_waits_for_an_operator(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    work(Task.objects.get())
    bus.turn()
    participant.pull()
    participant.submit("r-1", params={"transcripts": ["another"]})
    bus.turn()

    assert bus.request("r-1").progress == Progress.PROBLEM
    assert participant.names("inbox") == ["r-1.json"]
    assert Task.objects.count() == 1


def test_a_request_that_is_in_the_inbox_and_among_the_claimed_ones_is_touched_by_nobody(
    bus, participant
):
    participant.write("processing/r-1.json", "{}")
    participant.submit("r-1")
    bus.turn()

    assert "among the claimed ones too" in bus.request("r-1").problem
    assert participant.names("inbox") == participant.names("processing") == ["r-1.json"]


def test_a_repository_of_another_version_is_refused(bus, participant):
    environment = {"a2a_environment_version": "2.0"}
    participant.write("config/a2a-environment.json", json.dumps(environment))
    participant.submit("r-1")

    assert "has the version '2.0', not 1.x" in bus.turn().error
    assert participant.names("inbox") == ["r-1.json"]


def test_folders_are_those_that_the_repository_names(bus, participant, work):
    named = {"inbox": "tasks/in", "processing": "tasks/now", "outbox": "tasks/out"}
    environment = {"a2a_environment_version": "1.1", "directories_relative_to_repo_root": named}
    participant.write("config/a2a-environment.json", json.dumps(environment))
    participant.submit("r-1")
    participant.write("tasks/in/r-1.json", participant.read("inbox/r-1.json"))
    participant.push("Elsewhere")
    bus.turn()
    work(Task.objects.get())
    bus.turn()

    assert participant.names("tasks/out") == ["res_r-1.json"]
    assert participant.names("outbox") == []


@pytest.mark.parametrize("folder", ["../x", "/etc", ".git/hooks", "a//b", "a b", 7, ""])
def test_folders_outside_of_the_repository_are_refused(bus, participant, folder):
    environment = {
        "a2a_environment_version": "1.0",
        "directories_relative_to_repo_root": {"inbox": folder},
    }
    participant.write("config/a2a-environment.json", json.dumps(environment))
    participant.push("Elsewhere")

    if folder == "/etc":
        assert bus.turn().error == "", "it is read as a folder of the repository"
    else:
        assert "names no usable folder for 'inbox'" in bus.turn().error


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800", "\\udfff"])
@pytest.mark.parametrize("member", ["method", "sender_id", "params"])
def test_text_that_cannot_be_stored_stops_nothing(bus, participant, member, text):
    fields = {"jsonrpc": "2.0", "method": "consolidate", "params": {}, "id": "a-1"}
    fields |= {"sender_id": "x", "timestamp": "2026-11-22T10:00:00Z"}
    fields[member] = {"a": "HERE"} if member == "params" else "HERE"
    participant.write("inbox/a-1.json", json.dumps(fields).replace("HERE", text))
    participant.submit("r-1")
    bus.turn()

    assert bus.response("a-1")["error"]["code"] == -32700
    assert bus.request("r-1").progress == Progress.TAKEN
