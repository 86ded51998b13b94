"""Requests that others put into a repository become tasks, and their answers files beside them."""

from __future__ import annotations

import json

import pytest

from a2a.git_bus import listening
from a2a.models import BusRequest, Progress, Task
from a2a.states import TaskState

pytestmark = pytest.mark.django_db


def test_a_request_becomes_a_task_and_its_result_an_answer(bus, participant, complete):
    participant.submit("r-1", "consolidate", {"transcripts": ["one", "two"]})

    listening.serve_due()

    task = Task.objects.get()
    assert (task.state, task.input) == (TaskState.SUBMITTED, {"transcripts": ["one", "two"]})
    assert participant.names("processing") == ["r-1.json"]

    complete(task, {"summary": "Done."})
    bus.is_due()
    listening.serve_due()

    participant.pull()
    answer = json.loads(participant.read("outbox/res_r-1.json"))
    assert answer == {
        "jsonrpc": "2.0",
        "result": {"summary": "Done."},
        "error": None,
        "id": "r-1",
        "processed_by": "assent_acme",
    }
    assert participant.names("archive") == ["r-1.json"]
    assert participant.log()[0] == "Processed r-1"
    assert BusRequest.objects.get().progress == Progress.DONE
