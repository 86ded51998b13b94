"""Operators see what stands still, and say what is to be done with it."""

from __future__ import annotations

import json

import pytest

from a2a.doors.git_bus.changes import BusChange
from a2a.doors.git_bus.models import Progress, Wish
from a2a.models import Task
from ledger.models import Event
from tests.agents_at_work import GOOD_RESULT

pytestmark = pytest.mark.django_db


@pytest.fixture
def stuck(bus, participant) -> None:
    """Somebody has claimed a request and is gone."""
    participant.submit("r-1", method="astrology.chart")
    participant.git("mv", "inbox/r-1.json", "processing/r-1.json")
    participant.push("Claimed r-1 by nobody_knows")
    bus.turn()


def wish(bus, request_id: str, wanted: Wish) -> None:
    row = bus.request(request_id)
    row.wish, row.wished_by, row.wished_blob = wanted, "Olga", row.blob
    row.save()


def test_a_claim_of_somebody_who_is_gone_can_be_put_back(bus, participant, stuck):
    assert bus.request("r-1").progress == Progress.ELSEWHERE
    wish(bus, "r-1", Wish.RELEASE)
    bus.turn()

    assert participant.names("inbox") == ["r-1.json"]
    assert "Released r-1" in participant.log()
    event = Event.objects.get(kind=BusChange.REQUEST_SETTLED)
    assert json.loads(event.details)["asked_by"] == "Olga"


def test_a_claim_of_somebody_who_is_gone_can_be_answered_with_an_error(bus, participant, stuck):
    wish(bus, "r-1", Wish.REFUSE)
    bus.turn()

    assert bus.response("r-1")["error"]["message"] == "An operator has refused the request."
    assert participant.names("archive") == ["r-1.json"]


def test_what_nobody_takes_can_be_answered_with_an_error(bus, participant):
    participant.submit("r-1", method="astrology.chart")
    bus.turn()
    wish(bus, "r-1", Wish.REFUSE)
    bus.turn()

    assert bus.response("r-1")["error"] is not None
    assert participant.names("inbox") == []


def test_a_request_that_was_left_to_an_operator_can_be_looked_at_again(bus, participant):
    participant.write("processing/r-1.json", "{}")
    participant.submit("r-1")
    bus.turn()
    assert bus.request("r-1").progress == Progress.PROBLEM
    participant.pull()
    participant.git("rm", "-q", "processing/r-1.json")
    participant.push("Mine was a mistake")
    wish(bus, "r-1", Wish.RETRY)
    bus.turn()

    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_request_that_is_a_task_is_not_answered_behind_its_back(bus, participant):
    participant.submit("r-1")
    bus.turn()
    wish(bus, "r-1", Wish.REFUSE)
    bus.turn()

    assert bus.request("r-1").progress == Progress.TAKEN
    assert participant.names("outbox") == []


# --- rewritten history ------------------------------------------------------------------------


def rewind(participant, commits: int) -> None:
    participant.pull()
    participant.git("reset", "-q", "--hard", f"HEAD~{commits}")
    participant.git("push", "-q", "--force", "origin", "HEAD:main")


def test_rewritten_history_is_noticed_and_told(bus, participant):
    participant.submit("r-0", method="astrology.chart")
    was_at = bus.turn().head
    rewind(participant, 1)
    row = bus.turn()

    assert row.rewritten_at is not None
    event = Event.objects.get(kind=BusChange.HISTORY_REWRITTEN)
    assert json.loads(event.details)["was_at"] == was_at


def test_a_claim_that_was_taken_back_is_made_again_and_the_task_stays_one(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    rewind(participant, 1)
    bus.turn()
    assert participant.names("processing") == ["r-1.json"]

    work(Task.objects.get())
    bus.turn()
    assert bus.response("r-1")["result"] == GOOD_RESULT


def test_an_answer_that_was_taken_back_is_published_again_without_new_work(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    work(Task.objects.get())
    bus.turn()
    rewind(participant, 2)
    bus.turn()
    bus.turn()

    assert bus.response("r-1")["result"] == GOOD_RESULT
    assert Task.objects.count() == 1
