"""Whoever may push can add files, and neither borrow our signature nor end our tasks by that."""

from __future__ import annotations

import json

import pytest

from a2a.doors.git_bus.models import BusMethod, BusRequest, Progress, Strangers, Wish
from a2a.doors.git_bus.repository import git
from a2a.models import Skill, Task
from ledger.models import Agent, Tenant
from tests.a2a.git_bus.test_our_name import signing_line
from tests.agents_at_work import GOOD_INPUT

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(bus, participant, ask_for_draft):
    """A task of ours that the other side works on, and the id of its request."""
    task = ask_for_draft()
    bus.turn()
    participant.pull()
    return task, bus.sent(task)


def is_working(task: Task) -> bool:
    task.refresh_from_db()
    return task.state == "working"


@pytest.mark.slow
def test_what_an_operator_puts_back_does_not_carry_our_signature(bus, buses, participant):
    globex = Tenant.objects.create(slug="globex", name="Globex")
    theirs = buses(globex, participant, name="acme")
    writer = Agent.objects.create(tenant=globex, slug="w", name="Writer")
    Skill.objects.create(agent=writer, slug="drafts", name="Drafts")
    BusMethod.objects.create(bus=theirs.row, method="consolidate", skill="drafts")
    theirs.set(strangers=Strangers.REFUSE, allowed_signers=signing_line(bus))
    bus.set(strangers=Strangers.ASK)
    bus.turn()
    participant.pull()
    request = {"jsonrpc": "2.0", "method": "consolidate", "params": GOOD_INPUT, "id": "r-2"}
    participant.write("inbox/r-2.json", json.dumps(request))
    participant.push("Submitted r-2")
    participant.git("mv", "inbox/r-2.json", "processing/r-2.json")
    participant.push("Claimed r-2 by somebody")
    bus.turn()

    BusRequest.objects.filter(bus=bus.row).update(wish=Wish.RELEASE, wished_by="user:1")
    bus.turn()
    theirs.turn()

    participant.pull()
    row = theirs.request("r-2")
    assert (row.signer, row.task_id) == ("", None)
    assert any("Released r-2" in line for line in participant.log())


def test_a_file_that_was_replaced_after_our_claim_is_not_filed_as_what_we_answered(
    bus, participant, work
):
    participant.submit("r-1")
    bus.turn()
    participant.pull()
    participant.write("processing/r-1.json", '{"jsonrpc": "2.0", "id": "r-1"}')
    participant.push("Another text")

    work(Task.objects.get())
    bus.turn()

    participant.pull()
    assert "archive/r-1.json" not in participant.names("archive")
    assert participant.names("processing") == ["r-1.json"]
    assert "result" in bus.response("r-1")
    assert "replaced the file since we claimed it" in bus.request("r-1").problem


def test_a_full_outbox_keeps_no_answer_back(bus, participant, sent, monkeypatch):
    task, request_id = sent
    monkeypatch.setattr(git, "MOST_ENTRIES", 20)
    for number in range(25):
        participant.write(f"outbox/res_old-{number}.json", "{}")
    participant.answer(request_id, result={"text": "here"})

    row = bus.turn()

    task.refresh_from_db()
    assert (row.error, task.state) == ("", "completed")


def test_only_files_with_content_are_answers(bus, participant, sent):
    task, request_id = sent
    participant.write(f"outbox/res_{request_id}.d/x", "a folder")
    participant.write(f"outbox/res_{request_id}.lock", "")
    participant.write(f"outbox/res_{request_id}.txt", "")
    (participant.folder / f"outbox/res_{request_id}.md").symlink_to("/etc/passwd")
    participant.push("No answers")

    bus.turn()

    assert is_working(task)


@pytest.mark.slow
def test_a_file_that_nobody_signed_takes_nothing_from_a_signed_answer(
    bus, participant, ask_for_draft, signing
):
    bus.set(strangers=Strangers.REFUSE, allowed_signers=signing)
    task = ask_for_draft()
    bus.turn()
    participant.pull()
    participant.git("config", "commit.gpgsign", "false")
    participant.write(f"outbox/res_{bus.sent(task)}.a", "of a stranger")
    participant.push("Unsigned")
    bus.turn()
    assert is_working(task)

    participant.git("config", "commit.gpgsign", "true")
    participant.write(f"outbox/res_{bus.sent(task)}.md", "signed")
    participant.push("Signed")
    bus.turn()

    task.refresh_from_db()
    assert task.state == "completed"
    assert task.result == {"files": [f"res_{bus.sent(task)}.md"]}
    assert bus.request(bus.sent(task)).progress == Progress.DONE
