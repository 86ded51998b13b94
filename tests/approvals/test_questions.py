"""Questions and tasks at the desk: who sees, who may answer, what a person filled in."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.http import QueryDict
from django.urls import reverse

from a2a import tasks
from a2a.models import Question, Task
from a2a.tasks import questions
from approvals.presentation.forms import values
from approvals.presentation.forms.fields import answer_form

pytestmark = pytest.mark.django_db

DATES = {
    "type": "object",
    "properties": {"date": {"enum": ["May 3", "May 5"]}},
    "required": ["date"],
}
LETTERS = {"type": "array", "items": {"enum": ["a", "b"]}}


@pytest.fixture
def a_question(a_claimed_task, worker):
    def make(text="Which date is right?", **said):
        task = a_claimed_task()
        said = {"form": DATES, **said}
        return questions.ask(
            task.pk,
            agent=worker.principal,
            fencing_token=task.fencing_token,
            text=text,
            via="api",
            **said,
        )

    return make


def answered(client, question, **said):
    return client.post(
        reverse("desk:question-answer", args=[question.pk]), said, headers={"HX-Request": "true"}
    )


def test_the_inbox_counts_and_shows_questions_beside_transactions(as_alice, a_question, a_payment):
    payment, question = a_payment(), a_question()

    page = as_alice.get("/").content.decode()

    assert f'id="row-{question.task_id}"' in page
    assert f'id="row-{payment.pk}"' in page
    assert 'data-total="2"' in page
    only = as_alice.get("/?tool=questions").content.decode()
    assert f'id="row-{payment.pk}"' not in only
    assert f'id="row-{question.task_id}"' in only
    assert as_alice.get("/?q=nowhere").content.decode().count("row-0") == 0


def test_an_answer_is_recorded_with_who_gave_it_and_the_task_goes_on(as_alice, a_question, alice):
    question = a_question()

    page = answered(as_alice, question, **{"answer/date": '"May 5"'}).content.decode()

    assert "<bdi>Alice Moreau</bdi> answered on the desk" in " ".join(page.split())
    found = Question.objects.get()
    assert (found.answer, found.answered_by, found.answered_via) == (
        {"date": "May 5"},
        str(alice),
        "web",
    )
    assert Task.objects.get().state == "working"


def test_the_second_answer_sees_who_was_faster(as_alice, as_bob, a_question):
    question = a_question()
    answered(as_alice, question, **{"answer/date": '"May 5"'})

    late = answered(as_bob, question, **{"answer/date": '"May 3"'})

    assert late.status_code == 409
    assert "Alice Moreau answered it web: " in late.content.decode()


def test_an_answer_that_does_not_fit_is_said_and_nothing_is_recorded(as_alice, a_question):
    question = a_question()

    refused = answered(as_alice, question, **{"answer/date": '"June 1"'})

    assert refused.status_code == 422
    assert "Nothing was recorded" in refused.content.decode()
    assert Question.objects.get().state == "open"


def test_only_those_who_may_answer_can(as_vera, as_olga, as_alice, as_carol, a_question):
    question = a_question(may_answer=["operator"])
    there = reverse("desk:question", args=[question.pk])

    for client in (as_vera, as_alice):
        assert "You may not answer it." in client.get(there).content.decode()
        assert answered(client, question, **{"answer/date": '"May 5"'}).status_code == 403
    assert as_carol.get(there).status_code == 404
    assert answered(as_carol, question).status_code == 404
    assert Question.objects.get().state == "open"
    assert answered(as_olga, question, **{"answer/date": '"May 5"'}).status_code == 200


def test_a_late_answer_is_told_that_the_time_was_up(as_alice, a_question):
    question = a_question()
    Question.objects.update(expires_at=question.created_at)
    questions.lapse(question.pk)

    late = answered(as_alice, question, **{"answer/date": '"May 5"'})

    assert late.status_code == 409
    assert "Nobody answered within 10m" in late.content.decode()


def test_of_two_questions_with_one_wording_each_page_has_its_own_form_deadline_and_answer(
    as_alice, a_claimed_task, worker
):
    task = a_claimed_task()

    def ask(day, minutes):
        return questions.ask(
            task.pk,
            agent=worker.principal,
            fencing_token=task.fencing_token,
            text="Which date is right?",
            form={"enum": [day, "None"]},
            is_new=True,
            ttl=timedelta(minutes=minutes),
            via="api",
        )

    first = ask("May 3", 30)
    answered(as_alice, first, answer='"May 3"')
    second = ask("June 7", 90)

    def page_of(address):
        return as_alice.get(address).content.decode()

    first_page, second_page = (
        page_of(reverse("desk:question", args=[question.pk])) for question in (first, second)
    )
    assert "May 3" in first_page
    assert "June 7" not in first_page
    assert "June 7" in second_page
    assert f'datetime="{second.expires_at.isoformat()}"' in second_page
    answered(as_alice, second, answer='"June 7"')
    assert [question.answer for question in Question.objects.order_by("pk")] == ["May 3", "June 7"]

    # Each entry of the task's history, and of its decision record, leads to its own question.
    history = page_of(reverse("desk:task", args=[task.pk])).partition("<h2>History</h2>")[2]
    links = re.findall(r'href="/questions/([0-9a-f-]+)/">([^<]+)', history)
    record = page_of(reverse("desk:task-record", args=[task.pk]))
    pairs = [
        (str(question.pk), label)
        for question in (first, second)
        for label in ("Asked a question", "Answered")
    ]
    assert links == pairs
    assert re.findall(r'href="#question-([0-9a-f-]+)">([^<]+)', record) == pairs
    assert re.findall(r'id="question-([0-9a-f-]+)"', record) == [str(first.pk), str(second.pk)]


@pytest.mark.parametrize(
    ("schema", "said", "value"),
    [
        ({}, "answer=Go+on", "Go on"),
        ({"enum": [1, "1"]}, "answer=1", 1),
        ({"enum": [1, "1"]}, "answer=%221%22", "1"),
        ({"type": "boolean"}, "answer=false", False),
        ({"type": "integer"}, "answer=42", 42),
        (LETTERS, "answer=%22a%22&answer=%22b%22", ["a", "b"]),
        (LETTERS, "", []),
        ({"oneOf": [{"const": 7, "title": "Seven"}]}, "answer=7", 7),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
                "required": ["a"],
            },
            "answer/a=x&answer/b=",
            {"a": "x"},
        ),
        ({"type": "array", "items": {"type": "object"}}, "answer=%5B%7B%7D%5D", [{}]),
    ],
)
def test_what_is_filled_in_comes_back_in_the_shape_of_the_schema(schema, said, value):
    assert values.read_form(answer_form(schema), QueryDict(said), schema) == value


def test_every_kind_of_field_has_its_input():
    schema = {
        "type": "object",
        "properties": {
            "choice": {"enum": ["a"]},
            "several": {"type": "array", "items": {"enum": ["a"]}},
            "number": {"type": "integer"},
            "text": {"type": "string", "maxLength": 20},
            "lines": {"type": "string"},
            "yes_no": {"type": "boolean"},
            "group": {"type": "object", "properties": {"deep": {}}},
            "json": {"type": "array", "items": {"type": "object"}},
        },
    }

    fields = answer_form(schema).fields
    assert {field.path[-1]: field.kind for field in fields} == {
        name: name for name in schema["properties"]
    }


def test_the_task_page_shows_the_whole_story_and_escapes_it(as_alice, a_claimed_task, worker):
    task = a_claimed_task()
    held = {"agent": worker.principal, "fencing_token": task.fencing_token, "via": "api"}
    tasks.report(task.pk, **held, stage="<b>reading</b>", percent=40, note="")
    tasks.add_artifact(
        task.pk,
        **held,
        artifact_id="notes",
        parts=[
            {"text": "<script>alert(1)</script>"},
            {"url": "javascript:alert(1)"},
            {"data": {"a": "<i>"}},
        ],
    )

    page = as_alice.get(reverse("desk:task", args=[task.pk])).content.decode()

    assert '<progress max="100" value="40">' in page
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    assert "javascript:alert" not in page.replace("&quot;", "")
    assert "Orchestrator" in page


def test_a_person_cancels_a_task_with_a_reason(as_alice, as_vera, a_claimed_task):
    task = a_claimed_task()
    there = reverse("desk:task-cancel", args=[task.pk])

    assert as_vera.post(there, {"reason": "x"}).status_code == 403
    assert as_alice.post(there, {"reason": ""}).status_code == 422
    assert as_alice.post(there, {"reason": "wrong customer"}).status_code == 302

    found = Task.objects.get()
    assert (found.state, found.reason_code, found.reason) == (
        "canceled",
        "canceled_by_person",
        "wrong customer",
    )


def test_tasks_are_listed_by_state_and_only_for_the_tenant(as_alice, as_carol, a_claimed_task):
    task = a_claimed_task()

    assert task.short_id in as_alice.get("/tasks/?state=working").content.decode()
    assert task.short_id not in as_alice.get("/tasks/?state=failed").content.decode()
    assert task.short_id not in as_carol.get("/tasks/").content.decode()


def test_the_deadline_is_the_skills_own(a_question, consolidate):
    question = a_question()
    assert question.expires_at - question.created_at == timedelta(minutes=10)
    assert json.dumps(question.form)
