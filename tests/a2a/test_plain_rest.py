"""The plain dialect and the workers' REST: a task from submission to its end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from a2a.models import Question, Skill, Task
from ledger.models import Scope
from ledger.proof.audit import verification
from ledger.workers import sweeper
from tests.agents_at_work import GOOD_INPUT, speaking_as

pytestmark = pytest.mark.django_db

TASKS, WORK = "/api/v1/tasks", "/api/v1/work"


def post(client: Client, address: str, body: Any = None, **headers: str) -> Any:
    return client.post(address, body or {}, content_type="application/json", headers=headers)


def submit(client: Client, value: Any = GOOD_INPUT, skill: str = "consolidate", **headers: str):
    return post(client, TASKS, {"skill": skill, "input": value}, **headers)


def claimed(client: Client) -> dict[str, Any]:
    answer = post(client, f"{WORK}/claim")
    assert answer.status_code == 200, answer.content
    return answer.json()


def ask(client: Client, work: dict[str, Any], **said: Any) -> Any:
    body = {"fencing_token": work["fencing_token"], "text": "Which date is right?", **said}
    return post(client, f"{WORK}/{work['task_id']}/ask", body)


def test_a_task_is_claimed_reported_on_and_completed(as_orchestrator, as_worker, consolidate):
    submitted = submit(as_orchestrator)
    assert (submitted.status_code, submitted.json()["state"]) == (201, "submitted")
    task = f"{TASKS}/{submitted.json()['task_id']}"

    work = claimed(as_worker)
    assert work["input"] == GOOD_INPUT
    mine = {"fencing_token": work["fencing_token"]}
    there = f"{WORK}/{work['task_id']}"
    post(as_worker, f"{there}/progress", {**mine, "stage": "reading", "percent": 40})
    seen = as_orchestrator.get(task).json()
    assert (seen["state"], seen["progress"]["percent"]) == ("working", 40)
    post(
        as_worker,
        f"{there}/artifacts",
        {**mine, "artifact_id": "notes", "parts": [{"text": "a"}], "is_complete": False},
    )
    post(
        as_worker,
        f"{there}/artifacts",
        {**mine, "artifact_id": "notes", "parts": [{"text": "b"}], "append": True},
    )
    done = post(as_worker, f"{there}/complete", {**mine, "result": {"summary": "short"}})

    assert done.json()["state"] == "completed"
    ended = as_orchestrator.get(task).json()
    assert (ended["state"], ended["result"]) == ("completed", {"summary": "short"})
    assert [artifact["artifact_id"] for artifact in ended["artifacts"]] == ["notes", "result"]
    assert ended["artifacts"][0]["parts"] == [{"text": "a"}, {"text": "b"}]
    kinds = [event["kind"] for event in as_orchestrator.get(f"{task}/events").json()]
    assert kinds == [
        "task_submitted",
        "task_claimed",
        "task_progressed",
        "task_artifact_added",
        "task_artifact_added",
        "task_artifact_added",
        "task_completed",
    ]
    assert verification.verify().others == 1


def test_a_question_waits_is_answered_by_the_client_and_reaches_the_worker(
    as_orchestrator, as_worker, consolidate
):
    task = f"{TASKS}/{submit(as_orchestrator).json()['task_id']}"
    work = claimed(as_worker)
    form = {
        "type": "object",
        "properties": {"date": {"enum": ["May 3", "May 5"]}},
        "required": ["date"],
    }
    question = ask(as_worker, work, form=form).json()

    waiting = as_orchestrator.get(task).json()
    assert (waiting["state"], waiting["input_required"]["form"]) == ("input-required", form)
    refused = post(as_orchestrator, f"{task}/resolve", {"answer": {"date": "June"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "answer_invalid")
    answered = post(as_orchestrator, f"{task}/resolve", {"answer": {"date": "May 3"}})
    assert answered.json()["state"] == "working"

    there = f"{WORK}/{work['task_id']}/questions/{question['question_id']}"
    assert as_worker.get(f"{there}?wait=5").json()["answer"] == {"date": "May 3"}
    again = ask(as_worker, work, form=form).json()
    assert again["answer"] == {"date": "May 3"}, "what was answered is not asked twice"


def test_past_its_deadline_a_question_cancels_the_task_with_the_reason(
    as_orchestrator, as_worker, consolidate
):
    task = f"{TASKS}/{submit(as_orchestrator).json()['task_id']}"
    work = claimed(as_worker)
    ask(as_worker, work, ttl_s=600)
    Question.objects.update(expires_at=Question.objects.get().created_at)

    sweeper.Sweeper().sweep()

    ended = as_orchestrator.get(task).json()
    assert ended["state"] == "canceled"
    assert ended["reason"]["code"] == "input_timeout"
    assert ended["reason"]["detail"] == "INPUT_REQUIRED not resolved within 10m timeout"
    late = post(as_orchestrator, f"{task}/resolve", {"answer": "May 3"})
    assert (late.status_code, late.json()["code"]) == (409, "question_expired")


def test_the_same_key_is_the_same_task_and_another_body_is_refused(as_orchestrator, consolidate):
    first = submit(as_orchestrator, **{"Idempotency-Key": "k1"})
    again = submit(as_orchestrator, **{"Idempotency-Key": "k1"})
    other = submit(as_orchestrator, {"transcripts": []}, **{"Idempotency-Key": "k1"})

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 422)
    assert first.json()["task_id"] == again.json()["task_id"]
    assert again["Idempotent-Replayed"] == "true"
    assert other.json()["code"] == "idempotency_key_reused"
    assert Task.objects.count() == 1


@pytest.mark.parametrize(
    ("skill", "value", "code"),
    [
        ("nothing", GOOD_INPUT, "unsupported_capability"),
        ("consolidate", {"transcripts": [1]}, "schema_mismatch"),
        ("consolidate", None, "schema_mismatch"),
    ],
)
def test_what_cannot_begin_is_rejected_with_the_reason(
    as_orchestrator, consolidate, skill, value, code
):
    task = submit(as_orchestrator, value, skill).json()

    assert (task["state"], task["reason"]["code"]) == ("rejected", code)
    assert Task.objects.get().events.get().kind == "task_rejected"


def test_over_capacity_is_rejected_and_room_is_made_by_an_end(
    as_orchestrator, as_worker, consolidate
):
    Skill.objects.update(max_concurrency=1)
    submit(as_orchestrator)
    second = submit(as_orchestrator).json()
    assert (second["state"], second["reason"]["code"]) == ("rejected", "over_capacity")

    work = claimed(as_worker)
    post(
        as_worker,
        f"{WORK}/{work['task_id']}/fail",
        {"fencing_token": work["fencing_token"], "reason": "no disk"},
    )

    assert submit(as_orchestrator).json()["state"] == "submitted"


@pytest.mark.parametrize(("is_retry_safe", "state"), [(True, "submitted"), (False, "failed")])
def test_a_silent_worker_loses_its_lease_and_its_late_word_is_void(
    as_orchestrator, as_worker, consolidate, is_retry_safe, state
):
    Skill.objects.update(is_retry_safe=is_retry_safe)
    submit(as_orchestrator)
    work = claimed(as_worker)
    Task.objects.update(lease_expires_at=Task.objects.get().created_at - timedelta(seconds=1))

    sweeper.Sweeper().sweep()

    task = Task.objects.get()
    assert task.state == state
    assert task.reason_code == ("" if is_retry_safe else "worker_lost")
    late = post(
        as_worker,
        f"{WORK}/{work['task_id']}/complete",
        {"fencing_token": work["fencing_token"], "result": {"summary": "x"}},
    )
    assert (late.status_code, late.json()["code"]) == (409, "task_lease_lost")
    assert Task.objects.get().state == state


def test_cancel_during_a_question_withdraws_it(as_orchestrator, as_worker, consolidate):
    task = f"{TASKS}/{submit(as_orchestrator).json()['task_id']}"
    work = claimed(as_worker)
    question = ask(as_worker, work).json()

    canceled = post(as_orchestrator, f"{task}/cancel", {"reason": "not needed"})

    assert canceled.json()["state"] == "canceled"
    there = f"{WORK}/{work['task_id']}/questions/{question['question_id']}"
    assert as_worker.get(there).json()["state"] == "withdrawn"
    beat = post(
        as_worker, f"{WORK}/{work['task_id']}/heartbeat", {"fencing_token": work["fencing_token"]}
    )
    assert (beat.status_code, beat.json()["state"]) == (409, "canceled")


def test_a_result_that_does_not_fit_leaves_the_lease(as_orchestrator, as_worker, consolidate):
    submit(as_orchestrator)
    work = claimed(as_worker)
    there, mine = f"{WORK}/{work['task_id']}/complete", {"fencing_token": work["fencing_token"]}

    refused = post(as_worker, there, {**mine, "result": {"text": "no summary"}})

    assert (refused.status_code, refused.json()["code"]) == (422, "result_invalid")
    assert post(as_worker, there, {**mine, "result": {"summary": "y"}}).status_code == 200
    assert post(as_worker, there, {**mine, "result": {"summary": "y"}}).status_code == 200


def test_polling_faster_than_every_two_seconds_earns_a_429(as_orchestrator, consolidate):
    task = f"{TASKS}/{submit(as_orchestrator).json()['task_id']}"
    answers = [as_orchestrator.get(task) for _ in range(6)]

    assert answers[0]["Retry-After"] == "2"
    assert answers[-1].status_code == 429
    assert answers[-1].json()["code"] == "polling_too_fast"


def test_what_has_ended_is_read_as_often_as_one_likes(as_orchestrator, consolidate):
    task = f"{TASKS}/{submit(as_orchestrator).json()['task_id']}"
    post(as_orchestrator, f"{task}/cancel")

    assert {as_orchestrator.get(task).status_code for _ in range(6)} == {200}


def test_two_who_watch_one_task_at_the_proper_pace_are_never_stopped(as_orchestrator, consolidate):
    from ledger.foundation import doorbell

    task = f"{TASKS}/{submit(as_orchestrator).json()['task_id']}"

    for _ in range(8):
        both = [as_orchestrator.get(task).status_code for _ in range(2)]
        assert both == [200, 200]
        for name in doorbell.redis().scan_iter("assent:poll:*"):
            if not name.endswith(b":fast"):
                doorbell.redis().delete(name)  # the interval is over


def test_the_pauses_double_after_ten_answers_that_said_working(a_claimed_task):
    from a2a.polling import seconds_until_next

    task = a_claimed_task()
    pauses = [seconds_until_next(task.pk, "working", "acme") for _ in range(16)]

    assert pauses == [2] * 10 + [4, 8, 16, 30, 30, 30]


def test_strangers_and_other_tenants_see_nothing(
    as_orchestrator, consolidate, stranger, helpdesk, as_worker
):
    task_id = submit(as_orchestrator).json()["task_id"]

    for other in (stranger, helpdesk):
        client = speaking_as(other, Scope.SUBMIT, Scope.WORK)
        assert client.get(f"{TASKS}/{task_id}").status_code == 404
        assert post(client, f"{TASKS}/{task_id}/cancel").status_code == 404
        assert post(client, f"{WORK}/claim").status_code == 204
    assert as_worker.get(f"{TASKS}/{task_id}").status_code == 200


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_what_cannot_be_kept_is_refused_not_an_error(as_orchestrator, consolidate, text):
    answer = submit(as_orchestrator, {"transcripts": [text]})

    assert (answer.status_code, answer.json()["code"]) == (422, "unsafe_text")


def test_hand_over_changes_the_owner_and_says_so(as_orchestrator, as_worker, consolidate, acme):
    from ledger.models import Agent

    other = Agent.objects.create(tenant=acme, slug="reviewer", name="Reviewer")
    Skill.objects.create(agent=other, slug="review", name="Review")
    submit(as_orchestrator)
    work = claimed(as_worker)

    handed = post(
        as_worker,
        f"{WORK}/{work['task_id']}/hand_over",
        {"fencing_token": work["fencing_token"], "skill": "review", "reason": "legal"},
    )

    assert handed.json()["state"] == "submitted"
    task = Task.objects.get()
    assert (task.owner, task.skill_slug) == ("agent:acme/reviewer", "review")
    assert post(as_worker, f"{WORK}/claim").status_code == 204
    assert claimed(speaking_as(other, Scope.WORK))["task_id"] == str(task.pk)


def test_the_client_names_who_answers_where_the_worker_names_nobody(
    as_orchestrator, as_worker, consolidate, alice
):
    body = {"skill": "consolidate", "input": GOOD_INPUT, "may_answer": ["user:alice", "client"]}
    assert post(as_orchestrator, TASKS, body).status_code == 201
    work = claimed(as_worker)

    assert ask(as_worker, work).json()["may_answer"] == [str(alice), "client"]
    body["may_answer"] = ["user:nobody"]
    assert post(as_orchestrator, TASKS, body).status_code == 422
    assert Task.objects.count() == 1


def envelope_of(stranger):
    return {
        "trace_id": "t-1",
        "message_id": "m-1",
        "idempotency_key": "k-1",
        "from": stranger.slug,
        "to": "archivist",
        "tenant": "acme",
        "capability": "consolidate",
        "audience": "assent",
        "scopes": ["submit"],
        "timeout_s": 60,
    }


def test_a_client_of_another_tenant_does_not_replace_the_approvers(
    consolidate, as_worker, stranger
):
    Skill.objects.update(open_to=[stranger.tenant_id])
    body = {"skill": "consolidate", "input": GOOD_INPUT, "may_answer": ["client"]}
    client = speaking_as(stranger, Scope.SUBMIT)
    submitted = post(client, TASKS, {**body, "envelope": envelope_of(stranger)})
    assert submitted.json()["state"] == "submitted", submitted.json()

    assert ask(as_worker, claimed(as_worker)).json()["may_answer"] == ["client", "approver"]


def test_a_client_of_the_same_tenant_names_who_answers(as_orchestrator, as_worker, consolidate):
    body = {"skill": "consolidate", "input": GOOD_INPUT, "may_answer": ["client"]}
    post(as_orchestrator, TASKS, body)

    assert ask(as_worker, claimed(as_worker)).json()["may_answer"] == ["client"]


def test_a_client_of_another_tenant_cannot_find_out_who_our_people_are(
    consolidate, stranger, alice
):
    Skill.objects.update(open_to=[stranger.tenant_id])
    envelope = {"tenant": "acme", "capability": "consolidate"}
    body = {"skill": "consolidate", "input": GOOD_INPUT, "envelope": envelope}

    answers = [
        post(speaking_as(stranger, Scope.SUBMIT), TASKS, {**body, "may_answer": [name]}).json()
        for name in ("user:alice", "user:nobody")
    ]
    assert answers[0]["code"] == "invalid_request"
    assert answers[0] == answers[1]
