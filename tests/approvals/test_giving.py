"""People give agents work: the same kind of task as an agent submits, by the same code."""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from a2a import submissions, tasks
from a2a.models import Question, Skill, Task
from a2a.tasks import questions
from approvals.desk import giving
from ledger.models import Agent
from ledger.proof.audit import verification
from tests.a2a.test_plain_rest import WORK, claimed, post
from tests.conftest import signed_in
from tests.forgery import without_triggers

pytestmark = pytest.mark.django_db

SCHEMA = {
    "type": "object",
    "properties": {
        "topic": {"type": "string", "maxLength": 100},
        "pages": {"type": "integer", "minimum": 1},
        "sources": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["topic"],
}
TOPIC = {"input/topic": "Fares in May"}


@pytest.fixture
def report(worker: Agent) -> Skill:
    return Skill.objects.create(
        agent=worker, slug="report", name="Write a report", input_schema=SCHEMA
    )


def form_for(skill: Skill) -> str:
    return reverse("desk:give", args=[skill.pk])


def send(client: Client, address: str, key=None, **fields):
    said = {"key": str(key or uuid4()), "lasts": "", "may_answer": ["approver", "client"]}
    return client.post(address, {**said, **TOPIC, **fields})


def given(client: Client, skill: Skill, **fields) -> Task:
    answer = send(client, form_for(skill), **fields)
    assert answer.status_code == 302, answer.content.decode()
    return Task.objects.get(pk=answer["Location"].split("/")[2])


def complete(task: Task, result) -> Task:
    task.refresh_from_db()
    tasks.complete(
        task.pk,
        agent=task.skill.agent.principal,
        fencing_token=task.fencing_token,
        result=result,
        via="api",
    )
    return Task.objects.get(pk=task.pk)


# --- giving -----------------------------------------------------------------------------------


def test_a_managers_work_is_a_task_of_that_person(as_alice, alice, as_worker, report):
    task = given(
        as_alice,
        report,
        **{"input/pages": "3", "input/sources": "a\nb", "change": "Not too long.", "lasts": "3600"},
    )
    work = claimed(as_worker)

    assert (task.submitted_by, task.tenant, task.state) == (str(alice), "acme", "submitted")
    assert work["input"] == {"topic": "Fares in May", "pages": 3, "sources": ["a", "b"]}
    assert work["messages"][0]["parts"][1:] == [{"text": "Not too long."}]
    assert task.expires_at - task.created_at < timedelta(hours=1, seconds=10)
    event = task.events.get(kind="task_submitted")
    assert (event.principal, event.via) == (str(alice), "web")
    assert verification.verify().others == 2


def test_the_same_form_sent_twice_gives_one_task(as_alice, report):
    key = uuid4()
    first, second = (given(as_alice, report, key=key) for _ in range(2))

    assert first == second
    assert Task.objects.count() == 1


def test_a_form_that_was_sent_and_then_changed_says_what_became_of_it(as_alice, report):
    key = uuid4()
    first = given(as_alice, report, key=key)
    answer = send(as_alice, form_for(report), key=key, **{"input/topic": "Another"})

    page = answer.content.decode()
    assert answer.status_code == 409
    assert reverse("desk:task", args=[first.pk]) in page
    assert "Another" in page
    assert str(key) not in page  # sent again, it is another task


def test_what_does_not_fit_is_marked_and_nothing_is_lost(as_alice, report):
    typed = {
        "input/topic": "T" * 101,
        "input/pages": "many",
        "change": "My note.",
        "may_answer": [],
    }
    answer = send(as_alice, form_for(report), **typed)

    page = answer.content.decode()
    assert answer.status_code == 422
    assert Task.objects.count() == 0
    for text in ("At most 100 characters", "“many” is not a number", "has to be able to answer"):
        assert text in page
    for text in ("T" * 101, 'value="many"', "My note."):
        assert text in page


def test_files_go_along_as_parts_of_the_message(as_alice, as_worker, report):
    file = SimpleUploadedFile("../a b.pdf", b"%PDF", content_type="application/pdf")
    given(as_alice, report, files=[file])

    parts = claimed(as_worker)["messages"][0]["parts"]
    assert parts[1] == {
        "raw": base64.b64encode(b"%PDF").decode(),
        "filename": "a b.pdf",
        "mediaType": "application/pdf",
    }


def test_a_file_of_text_can_be_downloaded_as_text_and_nothing_else(
    as_alice, as_vera, as_carol, report
):
    notes = SimpleUploadedFile("fares.html", "<b>Fährpreise</b>".encode(), "text/html")
    picture = SimpleUploadedFile("map.png", b"\x89PNG\r\n\xff", "image/png")
    task = given(as_alice, report, files=[notes, picture])

    page = as_vera.get(reverse("desk:task", args=[task.pk])).content.decode()
    (address,) = set(re.findall(rf"/tasks/{task.pk}/files/\w+", page))
    file = as_vera.get(address)

    assert file.content.decode() == "<b>Fährpreise</b>"
    assert file["Content-Type"] == "text/plain; charset=utf-8"
    assert file["Content-Disposition"] == 'attachment; filename="fares.html.txt"'
    assert file["X-Content-Type-Options"] == "nosniff"
    assert re.search(r"map\.png</bdi>\s+\(image/png\) · not shown here", page)
    assert as_carol.get(address).status_code == 404
    assert as_vera.get(f"{address}0").status_code == 404


def test_the_page_says_a_failure_once_and_each_note_once(as_alice, as_worker, report):
    task = given(as_alice, report)
    work = claimed(as_worker)
    held = {"fencing_token": work["fencing_token"]}
    said = {**held, "message": "Fares of May are missing."}
    post(as_worker, f"{WORK}/{task.pk}/progress", said)
    post(as_worker, f"{WORK}/{task.pk}/fail", {**held, "reason": "No fares, no report."})
    # As a partner on a git bus says it.
    Task.objects.update(errors=[{"code": -32000, "message": "No fares, no report."}])

    page = as_alice.get(reverse("desk:task", args=[task.pk])).content.decode()

    assert (page.count("No fares, no report."), page.count("Fares of May are missing.")) == (1, 1)


def test_a_task_that_waits_says_for_whom_and_how_many_come_first(as_alice, as_worker, report):
    first, second, third = (given(as_alice, report) for _ in range(3))

    def page(task):
        return as_alice.get(reverse("desk:task", args=[task.pk])).content.decode()

    assert "it waits for" in page(first)
    assert "other task" not in page(first)
    assert "after 1 other task" in page(second)
    assert "after 2 other tasks" in page(third)
    claimed(as_worker)
    assert "it waits for" not in page(first)
    assert "after 1 other task" in page(third)


def test_files_that_are_too_large_are_refused_in_words(as_alice, report):
    file = SimpleUploadedFile("a.bin", b"x" * (giving.LARGEST_FILES + 1))
    answer = send(as_alice, form_for(report), files=[file])

    assert answer.status_code == 422
    assert "at most 700 kB go along" in answer.content.decode()
    assert Task.objects.count() == 0


def test_a_skill_that_takes_no_more_says_so_and_the_form_can_be_sent_again(as_alice, report):
    Skill.objects.filter(pk=report.pk).update(max_concurrency=0)
    key = uuid4()
    page = send(as_alice, form_for(report), key=key).content.decode()
    assert "It was not taken: report has 0 open tasks" in page
    assert "Fares in May" in page
    assert str(key) not in page


def test_a_skill_that_demands_envelopes_and_a_scope_takes_work_of_people(as_alice, report):
    terms = {"requires_envelope": True, "required_scope": "finance"}
    Skill.objects.filter(pk=report.pk).update(**terms)
    task = given(as_alice, report)

    assert task.state == "submitted"
    assert task.lent_scopes == ["finance", "submit"]


def test_the_form_says_which_scopes_are_lent(as_alice, report):
    def lent():
        page = " ".join(as_alice.get(form_for(report)).content.decode().split())
        listed = page.partition("only within them:")[2].partition("</p>")[0]
        return re.sub("<[^>]+>", "", listed).split(",")

    assert [scope.strip() for scope in lent()] == ["submit"]
    Skill.objects.filter(pk=report.pk).update(required_scope="finance")
    assert [scope.strip() for scope in lent()] == ["finance", "submit"]


def test_work_of_a_person_can_be_handed_over_within_the_tenant(as_alice, report, worker):
    other = Skill.objects.create(agent=worker, slug="print", name="Print")
    given(as_alice, report)
    held = tasks.claim(worker.principal, skills=[], via="api")
    handed = submissions.hand_over(
        held.pk,
        agent=worker.principal,
        fencing_token=held.fencing_token,
        slug=other.slug,
        reason="",
        via="api",
    )
    assert handed.skill_slug == "print"


# --- who may ----------------------------------------------------------------------------------


def test_only_approvers_give_work(as_vera, as_olga, as_alice, report):
    for client in (as_vera, as_olga):
        assert client.get(reverse("desk:give-choose")).status_code == 403
        assert client.get(form_for(report)).status_code == 403
        assert send(client, form_for(report)).status_code == 403
    assert Task.objects.count() == 0
    assert as_alice.get(form_for(report)).status_code == 200


def test_a_skill_of_another_tenant_is_not_there(as_carol, as_alice, globex, report):
    theirs = Agent.objects.create(tenant=globex, slug="spy", name="Spy")
    hidden = Skill.objects.create(agent=theirs, slug="hidden", name="Hidden skill")

    assert as_alice.get(form_for(hidden)).status_code == 404
    assert send(as_alice, form_for(hidden)).status_code == 404
    assert "Hidden skill" not in as_alice.get(reverse("desk:give-choose")).content.decode()
    assert Task.objects.count() == 0


def test_a_skill_that_is_withdrawn_takes_no_work(as_alice, report):
    Skill.objects.filter(pk=report.pk).update(is_active=False)

    assert send(as_alice, form_for(report)).status_code == 404


def test_a_form_of_another_site_is_refused(alice_user, report):
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice_user)

    assert send(client, form_for(report)).status_code == 403
    assert Task.objects.count() == 0


def test_the_texts_of_a_schema_are_texts(as_alice, worker):
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
    schema = {
        "type": "object",
        "properties": {
            evil: {"title": evil, "description": evil, "enum": [evil]},
            "b": {"type": "string", "title": evil, "default": evil},
            "c": {"type": "object", "title": evil, "properties": {evil: {"type": "boolean"}}},
        },
    }
    skill = Skill.objects.create(
        agent=worker, slug="evil", name=evil, description=evil, input_schema=schema
    )

    for address in (form_for(skill), reverse("desk:give-choose")):
        page = as_alice.get(address).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    page = send(as_alice, form_for(skill), **{f"input/{evil.replace('/', '~1')}": "x"})
    assert page.status_code == 422
    assert "<img src=x" not in page.content.decode()


def test_a_schema_that_cannot_be_used_breaks_no_page(as_alice, worker):
    skill = Skill.objects.create(
        agent=worker, slug="odd", name="Odd", input_schema={"type": 7, "properties": {"a": {}}}
    )

    assert as_alice.get(form_for(skill)).status_code == 200
    answer = as_alice.post(form_for(skill), {"key": str(uuid4()), "input": "{}"})
    assert answer.status_code == 422


# --- questions --------------------------------------------------------------------------------


def asked(task: Task, **said) -> Question:
    task.refresh_from_db()
    agent = task.skill.agent.principal
    return questions.ask(
        task.pk, agent=agent, fencing_token=task.fencing_token, text="Which?", via="api", **said
    )


def test_who_gave_the_work_answers_its_questions(as_alice, as_bob, as_worker, alice, report):
    task = given(as_alice, report, may_answer=["client"])
    claimed(as_worker)
    question = asked(task)

    assert question.may_answer == ["client"]
    address = reverse("desk:question-answer", args=[question.pk])
    refused = as_bob.post(address, {"answer": "May 3"})
    assert refused.status_code == 403
    assert "Alice Moreau, who gave the task" in refused.content.decode()
    assert as_alice.post(address, {"answer": "May 5"}).status_code == 302
    question.refresh_from_db()
    assert (question.answer, question.answered_by) == ("May 5", str(alice))


def test_the_worker_may_name_others(as_alice, as_worker, report):
    task = given(as_alice, report, may_answer=["client"])
    claimed(as_worker)

    assert asked(task, may_answer=["operator"]).may_answer == ["operator"]


# --- revisions --------------------------------------------------------------------------------


def test_a_revision_begins_with_the_earlier_input_and_says_what_to_change(
    as_alice, as_bob, as_worker, report
):
    earlier = given(as_alice, report, **{"input/pages": "3"})
    claimed(as_worker)
    complete(earlier, {"text": "A table."})
    address = reverse("desk:task-revise", args=[earlier.pk])
    assert address in as_bob.get(reverse("desk:task", args=[earlier.pk])).content.decode()

    page = as_bob.get(address).content.decode()
    assert 'value="Fares in May"' in page
    assert 'value="3"' in page
    assert send(as_bob, address).status_code == 422  # nothing says what should change
    answer = send(as_bob, address, change="Keep the table, change the tone.")
    assert answer.status_code == 302
    work = claimed(as_worker)
    assert work["change_request"] == "Keep the table, change the tone."
    assert work["revises"]["result"] == {"text": "A table."}
    assert Task.objects.get(pk=work["task_id"]).revises == earlier


def test_a_task_that_has_not_ended_is_not_revised(as_alice, report):
    task = given(as_alice, report)
    address = reverse("desk:task-revise", args=[task.pk])

    assert as_alice.get(address).status_code == 409
    assert send(as_alice, address, change="Other").status_code == 409
    assert Task.objects.count() == 1


def test_a_task_of_another_tenant_is_not_revised(as_carol, as_alice, report):
    task = given(as_alice, report)
    tasks.cancel(task.pk, by=task.submitter, via="web")

    assert as_carol.get(reverse("desk:task-revise", args=[task.pk])).status_code == 404
    assert (
        send(as_carol, reverse("desk:task-revise", args=[task.pk]), change="x").status_code == 404
    )


def test_a_viewer_does_not_revise(as_vera, as_alice, report):
    task = given(as_alice, report)
    tasks.cancel(task.pk, by=task.submitter, via="web")
    address = reverse("desk:task-revise", args=[task.pk])

    assert (as_vera.get(address).status_code, send(as_vera, address).status_code) == (403, 403)
    assert address not in as_vera.get(reverse("desk:task", args=[task.pk])).content.decode()


def test_an_input_that_the_schema_knows_nothing_of_survives_a_revision(as_alice, as_worker, report):
    task = given(as_alice, report)
    tasks.cancel(task.pk, by=task.submitter, via="web")
    with without_triggers():
        Task.objects.filter(pk=task.pk).update(input={"topic": "Old", "style": {"font": "serif"}})
    address = reverse("desk:task-revise", args=[task.pk])
    assert "serif" in as_alice.get(address).content.decode()

    further = json.dumps({"style": {"font": "serif"}})
    send(as_alice, address, change="Newer", **{"input~more": further, "input/topic": "Old"})
    assert claimed(as_worker)["input"] == {"topic": "Old", "style": {"font": "serif"}}


def test_an_input_that_is_too_large_for_a_form_is_refused_in_words(as_alice, report):
    task = given(as_alice, report)
    tasks.cancel(task.pk, by=task.submitter, via="web")
    address = reverse("desk:task-revise", args=[task.pk])

    def open_with(topic):
        with without_triggers():
            Task.objects.filter(pk=task.pk).update(input={"topic": topic})
        return as_alice.get(address)

    refused = open_with("é" * 99_000)
    assert refused.status_code == 409
    assert "is too large for a form, which holds 192 KiB" in refused.content.decode()
    assert open_with("é" * 98_000).status_code == 200
    longest = {"input/topic": "é" * 98_000, "change": "é" * 10_000}
    assert (
        send(as_alice, address, **longest).status_code == 422
    )  # read, and longer than the skill takes


def test_signed_out_nobody_sees_a_form(report):
    assert Client().get(form_for(report)).status_code == 302
    assert send(Client(), form_for(report)).status_code == 302
    assert Task.objects.count() == 0


def test_a_superuser_without_a_role_gives_nothing(django_user_model, acme, report):
    root = django_user_model.objects.create_superuser("root", password="a long password")

    assert signed_in(root).get(form_for(report)).status_code == 403
