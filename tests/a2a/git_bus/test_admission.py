"""A bus may demand a known signature, or ask a person about whoever has none."""

from __future__ import annotations

import pytest

from a2a import builtin
from a2a.doors.git_bus import senders
from a2a.doors.git_bus.inbound import admission
from a2a.doors.git_bus.models import Progress, Strangers
from a2a.models import Question, Task
from a2a.states import TaskState
from a2a.tasks import questions
from ledger.principals import Surface

pytestmark = pytest.mark.django_db


def asked() -> Question:
    """The question that a person is asked."""
    return Question.objects.waiting().get()


def answer(question: Question, value: str, by) -> None:
    questions.answer(question.pk, value, by=by, via=Surface.WEB)
    builtin.settle_all()


@pytest.mark.parametrize("strangers", Strangers)
def test_who_signs_and_is_allowed_is_let_in_always(bus, participant, signing, strangers):
    bus.set(allowed_signers=signing, strangers=strangers)
    participant.submit("r-1")
    bus.turn()

    row = bus.request("r-1")
    assert row.progress == Progress.TAKEN
    assert row.signer == "ann@partner.example"
    assert senders.trust_in(row) == f"Signed by ann@partner.example ({row.key})."
    assert row.task.metadata["git_bus"]["trust"] == senders.trust_in(row)


@pytest.mark.parametrize("is_signed", [False, True])
def test_a_bus_that_demands_signatures_answers_others_with_an_error(
    bus, participant, signing, is_signed
):
    other = "bob@partner.example ssh-ed25519 " + "A" * 68
    bus.set(allowed_signers=other, strangers=Strangers.REFUSE)
    participant.git("config", "commit.gpgsign", str(is_signed).lower())
    participant.submit("r-1")
    bus.turn()

    assert "not signed by anybody who is known" in bus.response("r-1")["error"]["message"]
    assert not Task.objects.exists()


def test_a_person_sees_the_whole_request_and_lets_it_in(bus, participant, alice):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()

    assert bus.request("r-1").progress == Progress.HELD
    assert participant.names("inbox") == ["r-1.json"]
    question = asked()
    assert question.text.startswith(
        "Shall this request be taken? The commit is not signed. It names"
    )
    assert "asks Acme Travel for “consolidate”; as its sender it names “human_pm”." in question.text
    assert "The commit is not signed. It names Ann <ann@partner.example>; nothing" in question.text
    assert '"transcripts"' in question.evidence[0]["text"]
    bus.turn()
    assert Question.objects.count() == 1, "a person is asked once"

    answer(question, "take it", alice)
    bus.turn()
    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_person_refuses_it(bus, participant, alice):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()
    answer(asked(), "refuse it", alice)
    bus.turn()

    assert "a person has not let it in" in bus.response("r-1")["error"]["message"]
    assert Task.objects.count() == 1


def test_a_file_that_changes_while_a_person_looks_is_asked_about_anew(bus, participant, alice):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()
    first = asked()
    participant.submit("r-1", params={"transcripts": ["something else"]})
    bus.turn()

    first.task.refresh_from_db()
    assert first.task.state == TaskState.CANCELED
    second = asked()
    assert "something else" in second.evidence[0]["text"]
    answer(second, "take it", alice)
    bus.turn()
    assert bus.request("r-1").task.input == {"transcripts": ["something else"]}


def test_what_is_answered_after_the_file_was_changed_does_not_let_it_in(bus, participant, alice):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()
    answer(asked(), "take it", alice)
    participant.submit("r-1", params={"transcripts": ["something else"]})
    bus.turn()

    assert bus.request("r-1").progress == Progress.HELD
    assert bus.request("r-1").task is None


def test_who_claims_and_gives_back_a_strangers_request_has_not_refused_it(bus, participant, alice):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()
    first = asked()
    participant.git("mv", "inbox/r-1.json", "processing/r-1.json")
    participant.push("Claimed r-1 by mallory")
    bus.turn()
    first.task.refresh_from_db()
    assert first.task.state == TaskState.CANCELED
    participant.git("mv", "processing/r-1.json", "inbox/r-1.json")
    participant.push("Released r-1")
    bus.turn()

    answer(asked(), "take it", alice)
    bus.turn()
    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_request_that_is_withdrawn_asks_nobody_any_more(bus, participant):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()
    question = asked()
    participant.git("rm", "-q", "inbox/r-1.json")
    participant.push("Never mind")
    bus.turn()

    question.task.refresh_from_db()
    assert question.task.state == TaskState.CANCELED
    assert bus.request("r-1").progress == Progress.DONE


def test_content_that_somebody_else_changes_is_not_signed(bus, participant, signing):
    bus.set(allowed_signers=signing, strangers=Strangers.REFUSE)
    participant.write("inbox/.gitkeep", "x")
    participant.submit("r-1")
    participant.git("config", "commit.gpgsign", "false")
    participant.submit("r-1", params={"transcripts": ["mallory"]})
    bus.turn()

    assert bus.response("r-1")["error"] is not None


def test_an_unsigned_answer_does_not_end_a_task_where_signatures_are_demanded(
    bus, participant, signing, ask_for_draft
):
    bus.set(allowed_signers=signing, strangers=Strangers.REFUSE)
    task = ask_for_draft()
    bus.turn()
    participant.git("config", "commit.gpgsign", "false")
    participant.answer(bus.sent(task), result={"text": "forged"})
    bus.turn()

    task.refresh_from_db()
    assert (task.state, task.result) == (TaskState.WORKING, None)
    assert "not signed by anybody" in task.bus_request.problem


def test_many_strangers_are_asked_about_a_few_at_a_time(bus, participant, alice, monkeypatch):
    monkeypatch.setattr(admission, "MOST_HELD", 2)
    bus.set(strangers=Strangers.ASK)
    for number in range(4):
        participant.submit(f"r-{number}")
    bus.turn()
    assert Question.objects.waiting().count() == 2
    assert "people are asked about others" in bus.request("r-2").problem

    answer(Question.objects.waiting().order_by("pk")[0], "refuse it", alice)
    bus.turn()
    bus.turn()
    assert bus.request("r-2").progress == Progress.HELD
    assert Question.objects.waiting().count() == 2
