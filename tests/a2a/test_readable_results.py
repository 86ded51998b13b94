"""Clients that write text read text: in the result, in the last status, and while people think."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from a2a import tasks
from a2a.models import Question, Skill, Task
from a2a.protocol import updates
from a2a.protocol.updates import Since
from a2a.tasks import questions, result_parts, text_of
from ledger.models import Scope
from tests.a2a.test_protocol import Peer

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = [{"text": "Which colour?"}]
DATA = [{"data": {"skill": "ask_a_person", "input": {"text": "Which colour?"}}}]


@pytest.fixture
def peer(orchestrator):
    return Peer(orchestrator, Scope.SUBMIT, Scope.PROPOSE)


@pytest.fixture
def research(worker):
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    return Skill.objects.create(agent=worker, slug="research", name="R", input_schema=schema)


def send(peer, parts, path="/a2a/v1", **configuration):
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts}
    body = {"message": message, "configuration": {"returnImmediately": True, **configuration}}
    return peer.rpc("SendMessage", body, path=path)["result"]["task"]


def read(peer, task):
    return peer.rpc("GetTask", {"id": task["id"]})["result"]


def streamed(peer, task):
    """The parts of each status that a stream of the task shows, by its state."""
    (told,) = updates.updates_since([Since(peer.token, UUID(task["id"]), 0)])
    assert told is not None
    statuses = [body["statusUpdate"]["status"] for body in told.bodies if "statusUpdate" in body]
    return [
        (status["state"].removeprefix("TASK_STATE_"), status.get("message", {}).get("parts", []))
        for status in statuses
    ]


def test_an_answer_to_plain_text_is_a_text_and_its_name_says_whose_it_is(peer, alice):
    task = send(peer, TEXT)
    questions.answer(Question.objects.get().pk, "blue", by=alice, via="web")

    (artifact,) = read(peer, task)["artifacts"]
    assert artifact["parts"] == [{"text": "blue"}]
    assert artifact["name"] == f"Answer of {alice.name}"


def test_the_last_status_says_the_answer_in_task_and_stream(peer, alice):
    task = send(peer, TEXT)
    questions.answer(Question.objects.get().pk, "blue", by=alice, via="web")

    assert read(peer, task)["status"]["message"]["parts"] == [{"text": "blue"}]
    assert streamed(peer, task)[-1] == ("COMPLETED", [{"text": "blue"}])


def test_the_first_status_says_where_a_person_was_asked(peer):
    task = send(peer, TEXT)

    address = f"http://localhost:8000/questions/{Question.objects.get().pk}/"
    asked = {"text": f"A person was asked: {address}"}
    assert task["status"]["message"]["parts"][0] == asked
    state, parts = streamed(peer, task)[-1]
    assert (state, parts[0]) == ("WORKING", asked)


def test_a_workers_question_to_people_is_shown_with_its_address(peer, worker, research):
    task = send(peer, [{"text": "the market"}], path="/a2a/skills/research/v1")
    work = tasks.claim(worker.principal, skills=[], via="api")
    held = {"agent": worker.principal, "fencing_token": work.fencing_token, "via": "api"}
    questions.ask(work.pk, text="Which year?", may_answer=["approver"], **held)

    shown = read(peer, task)["status"]["message"]["parts"][0]["text"]
    assert shown.startswith("A person was asked: http")
    assert shown.endswith("\nWhich year?")


def test_an_answer_that_is_more_than_a_text_has_the_data_beside_it():
    result = {"answer": {"colour": "blue"}, "answered_by": "Alice"}

    assert result_parts(result, reads_text=True) == [{"text": "blue"}, {"data": result}]


def test_what_was_asked_as_data_is_answered_as_data(peer, alice):
    task = send(peer, DATA)
    questions.answer(Question.objects.get().pk, "blue", by=alice, via="web")

    (artifact,) = read(peer, task)["artifacts"]
    assert artifact["parts"] == [{"data": {"answer": "blue", "answered_by": alice.name}}]
    assert "message" not in read(peer, task)["status"]


@pytest.mark.parametrize(
    ("parts", "modes", "reads_text"),
    [
        (DATA, ["text/plain", "application/json"], True),
        (DATA, ["*/*"], True),
        (DATA, ["application/json"], False),
        (TEXT, ["application/json"], False),
        (TEXT, [], True),
        (DATA, [], False),
        ([*TEXT, *DATA], [], False),
    ],
)
def test_the_media_types_that_a_client_accepts_decide_before_what_it_wrote(
    peer, parts, modes, reads_text
):
    send(peer, parts, acceptedOutputModes=modes)

    assert Task.objects.get().reads_text is reads_text


def test_a_workers_result_begins_with_its_text(peer, worker, research):
    task = send(peer, [{"text": "the market"}], path="/a2a/skills/research/v1")
    work = tasks.claim(worker.principal, skills=[], via="api")
    result = {"summary": "It rose.", "pages": 3}
    tasks.complete(
        work.pk,
        agent=worker.principal,
        fencing_token=work.fencing_token,
        result=result,
        note="Three pages read.",
        via="api",
    )

    answer = read(peer, task)
    assert answer["artifacts"][0]["parts"] == [{"text": "It rose."}, {"data": result}]
    assert answer["status"]["message"]["parts"] == [{"text": "It rose."}]


def test_a_long_result_is_cut_in_the_status_and_whole_in_the_artifact(peer, worker, research):
    task = send(peer, [{"text": "the market"}], path="/a2a/skills/research/v1")
    work = tasks.claim(worker.principal, skills=[], via="api")
    held = {"agent": worker.principal, "fencing_token": work.fencing_token, "via": "api"}
    tasks.complete(work.pk, result={"text": "x" * 20_000}, **held)

    answer = read(peer, task)
    assert len(answer["status"]["message"]["parts"][0]["text"]) == 10_001
    assert answer["artifacts"][0]["parts"][0] == {"text": "x" * 20_000}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("blue", "blue"),
        ({"answer": "blue", "answered_by": "Alice"}, "blue"),
        ({"answer": {"colour": "blue"}, "answered_by": "Alice"}, "blue"),
        ({"status": "ok", "summary": "It rose."}, "It rose."),
        ({"pages": 3, "title": "Report"}, "Report"),
        ({"receipt": "r-1", "outcome": {"kind": "succeeded", "sentence": "Done."}}, "Done."),
        ({"approved": True}, "true"),
        ({"a": "x", "b": "y"}, '{\n  "a": "x",\n  "b": "y"\n}'),
        ([1, 2], "[\n  1,\n  2\n]"),
        ({}, "{}"),
    ],
)
def test_the_obvious_text_of_a_result_is_found_and_else_all_of_it_is_shown(result, text):
    assert text_of(result) == text


def test_a_result_that_is_a_text_is_not_sent_twice():
    assert result_parts("blue", reads_text=True) == [{"text": "blue"}]
    assert result_parts("blue", reads_text=False) == [{"data": "blue"}]
