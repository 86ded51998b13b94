"""Plain text without a skill, as most clients send it; an address and a card for each skill."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from a2a.models import Question, Skill, Task
from a2a.submissions.addressing import PlainText, as_input, expected_input, takes_text
from ledger.models import AgentToken, Scope
from tests.a2a.test_protocol import Peer
from tests.agents_at_work import GOOD_INPUT

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = [{"text": "May I refund order 1042?"}]
ONE_TEXT = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "language": {"type": "string"}},
    "required": ["question"],
}


@pytest.fixture
def peer(orchestrator):
    return Peer(orchestrator, Scope.SUBMIT, Scope.PROPOSE)


@pytest.fixture
def research(worker):
    return Skill.objects.create(agent=worker, slug="research", name="R", input_schema=ONE_TEXT)


def send(peer, path="/a2a/v1", parts=TEXT, **message):
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts, **message}
    body = {"message": message, "configuration": {"returnImmediately": True}}
    answer = peer.rpc("SendMessage", body, path=path)
    return answer["result"]["task"] if "result" in answer else answer["error"]


def row_of(task):
    return Task.objects.get(pk=task["id"])


# --- which skill --------------------------------------------------------------------------------


def test_plain_text_without_a_skill_is_a_question_for_people(peer, consolidate):
    task = send(peer)

    assert row_of(task).skill_slug == "ask_a_person"
    assert Question.objects.get().text == "May I refund order 1042?"


def test_plain_text_goes_to_the_only_skill_that_takes_text(peer, consolidate, research):
    found = row_of(send(peer))

    assert (found.skill_slug, found.input) == (
        "research",
        {"question": "May I refund order 1042?"},
    )


def test_with_two_skills_that_take_text_people_are_asked(peer, worker, research):
    Skill.objects.create(agent=worker, slug="free", name="Free", input_schema={})

    assert row_of(send(peer)).skill_slug == "ask_a_person"


def test_another_tenants_skill_is_nobodys_default(peer, stranger):
    Skill.objects.create(agent=stranger, slug="theirs", name="T", open_to=["acme"])

    assert row_of(send(peer)).skill_slug == "ask_a_person"


def test_the_default_skill_of_the_token_is_taken_before_all_others(
    peer, worker, research, consolidate
):
    Skill.objects.create(agent=worker, slug="free", name="Free", input_schema={})
    AgentToken.objects.update(default_skill="free")

    assert row_of(send(peer)).input == {"text": "May I refund order 1042?"}
    AgentToken.objects.update(default_skill="consolidate")
    assert row_of(send(peer, parts=[{"data": GOOD_INPUT}])).input == GOOD_INPUT


def test_data_without_a_skill_is_rejected_where_no_default_is_set(peer, consolidate):
    task = send(peer, parts=[{"data": GOOD_INPUT}])

    assert row_of(task).reason_code == "unsupported_capability"


@pytest.mark.parametrize("name", ["skill", "skillId", "skill_id"])
def test_the_skill_may_stand_in_the_metadata_under_its_usual_names(peer, consolidate, name):
    task = send(peer, parts=[{"data": GOOD_INPUT}], metadata={name: "consolidate"})

    assert row_of(task).skill_slug == "consolidate"


def test_a_request_may_come_as_json_in_a_text(peer, consolidate):
    text = json.dumps({"skill": "consolidate", "input": GOOD_INPUT})
    task = send(peer, parts=[{"text": text}])

    assert (row_of(task).skill_slug, row_of(task).input) == ("consolidate", GOOD_INPUT)


@pytest.mark.parametrize(
    "text", ['{"skill": "free", "input": {"a": NaN}}', '{"a": 1e999}', '{"a": "\\u0000"}']
)
def test_json_in_a_text_that_cannot_be_kept_is_no_internal_error(peer, worker, text):
    Skill.objects.create(
        agent=worker, slug="free", name="Free", input_schema={"type": "object", "minProperties": 1}
    )
    answer = send(peer, parts=[{"text": text}], metadata={"skill": "free"})

    assert answer.get("code") != -32603, answer


# --- an address for each skill --------------------------------------------------------------------


@pytest.mark.parametrize("binding", ["v1", "rest", "v0.3"])
def test_text_at_the_address_of_a_skill_is_for_that_skill(peer, consolidate, research, binding):
    base = f"/a2a/skills/research/{binding}"
    message = {"messageId": "m", "role": "ROLE_USER", "parts": TEXT}
    if binding == "rest":
        body = {"message": message, "configuration": {"returnImmediately": True}}
        task = peer.http("POST", f"{base}/message:send", json=body).json()["task"]
        read = peer.http("GET", f"{base}/tasks/{task['id']}").json()
    elif binding == "v1":
        task = send(peer, base)
        read = peer.rpc("GetTask", {"id": task["id"]}, path=base)["result"]
    else:
        old = {"A2A-Version": "0.3"}
        parts = [{"kind": "text", "text": TEXT[0]["text"]}]
        message = {"kind": "message", "messageId": "m", "role": "user", "parts": parts}
        params = {"message": message, "configuration": {"blocking": False}}
        task = peer.rpc("message/send", params, path=base, headers=old)["result"]
        read = peer.rpc("tasks/get", {"id": task["id"]}, path=base, headers=old)["result"]

    assert row_of(task).skill_slug == "research"
    assert row_of(task).input == {"question": "May I refund order 1042?"}
    assert read["id"] == task["id"]


def test_at_the_address_of_one_skill_another_is_refused(peer, consolidate, research):
    asked = [{"data": {"skill": "consolidate", "input": GOOD_INPUT}}]
    refused = send(peer, "/a2a/skills/research/v1", parts=asked)

    assert refused["code"] == -32602
    assert not Task.objects.exists()


def test_a_skill_that_takes_no_text_says_expected_input(peer, consolidate):
    task = send(peer, "/a2a/skills/consolidate/v1")

    found = row_of(task)
    assert (found.state, found.reason_code) == ("rejected", "schema_mismatch")
    said = task["status"]["message"]["parts"][0]["text"]
    assert "transcripts (array, required)" in said
    again = send(peer, "/a2a/skills/consolidate/v1", parts=[{"text": json.dumps(GOOD_INPUT)}])
    assert row_of(again).input == GOOD_INPUT


def test_the_address_of_a_skill_that_is_not_there_rejects(peer, consolidate):
    assert row_of(send(peer, "/a2a/skills/nothing/v1")).reason_code == "unsupported_capability"


def test_a_skills_card_leads_to_its_address_and_says_more_to_who_has_a_token(
    client, peer, stranger, research
):
    path = "/a2a/skills/research/.well-known/agent-card.json"
    public = client.get(path)
    known = client.get(path, headers={"Authorization": f"Bearer {peer.token}"})
    nobodys = client.get(path.replace("research", "nothing"))
    theirs = AgentToken.issue(stranger, scopes=[Scope.SUBMIT])[1]

    assert [face["url"].partition("/a2a/")[2] for face in public.json()["supportedInterfaces"]] == [
        "skills/research/v1",
        "skills/research/rest",
    ]
    assert public["Cache-Control"].startswith("public")
    same = json.loads(public.content.replace(b"research", b"nothing")), nobodys.json()
    for card in same:
        for passing in ("signatures", "version"):
            card.pop(passing, None)
    assert same[0] == same[1], "nobody learns from a card which skills there are"
    (skill,) = known.json()["skills"]
    assert (skill["id"], skill["name"]) == ("research", "R")
    assert known["Cache-Control"].startswith("private")
    assert "question" in known.content.decode()
    refused = client.get(path, headers={"Authorization": f"Bearer {theirs}"})
    assert refused.status_code == 404


def test_the_extended_card_at_a_skills_address_is_that_skills(peer, consolidate, research):
    here = "/a2a/skills/research"
    card = peer.rpc("GetExtendedAgentCard", path=f"{here}/v1")["result"]
    old = peer.rpc(
        "agent/getAuthenticatedExtendedCard",
        path=f"{here}/v0.3",
        headers={"A2A-Version": "0.3"},
    )["result"]

    assert [skill["id"] for skill in card["skills"]] == ["research"]
    assert old["url"].endswith("/a2a/skills/research/v0.3")
    assert "error" in peer.rpc("GetExtendedAgentCard", path="/a2a/skills/nothing/v1")


# --- text as input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {"text": "hello"}),
        ({"type": "string"}, "hello"),
        (ONE_TEXT, {"question": "hello"}),
        ({"properties": {"q": {"type": "string"}}}, {"q": "hello"}),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, None),
        ({"type": "object", "required": ["a", "b"]}, None),
        ({"type": "array"}, None),
        ({"type": ["string", "null"]}, None),
    ],
)
def test_a_text_goes_where_the_schema_has_one_place_for_it(schema, expected):
    assert takes_text(schema) == (expected is not None)
    assert as_input(PlainText("hello"), schema) == (expected or {"text": "hello"})
    assert "'s'" in expected_input("s", schema)
