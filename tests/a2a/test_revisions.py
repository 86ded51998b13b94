"""A revision: a new task of the same skill that begins where an ended one stopped."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.utils import timezone

from a2a import submissions, tasks
from a2a.models import Skill, Task
from a2a.submissions import Submission
from a2a.submissions.envelope import MOST_REVISIONS
from a2a.wire import plain_json
from ledger.models import Agent, Scope
from ledger.proof.audit import verification
from tests.a2a.test_plain_rest import TASKS, claimed, post
from tests.agents_at_work import GOOD_INPUT, caller_for, speaking_as

pytestmark = pytest.mark.django_db


@pytest.fixture
def earlier(a_claimed_task, worker):
    """A completed task with the result ``{"summary": "short"}``."""
    task = a_claimed_task()
    tasks.complete(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        result={"summary": "short"},
        via="api",
    )
    return Task.objects.get(pk=task.pk)


def revise(client, earlier, change="Keep the table, change the tone.", **headers):
    body = {
        "skill": "consolidate",
        "input": GOOD_INPUT,
        "revises": str(earlier.pk),
        "change_request": change,
    }
    return post(client, TASKS, body, **headers)


def refusal(client, earlier):
    body = revise(client, earlier).json()
    assert (body["state"], body["revises"]) == ("rejected", None)
    return body["reason"]["code"], body["reason"]["detail"]


def test_the_worker_of_a_revision_gets_what_was_done_and_what_to_change(
    as_orchestrator, as_worker, earlier
):
    revision = revise(as_orchestrator, earlier).json()
    work = claimed(as_worker)

    assert (revision["revises"], revision["revision"]) == (str(earlier.pk), 1)
    assert revision["context_id"] == earlier.context_id
    assert work["change_request"] == "Keep the table, change the tone."
    revised = work["revises"]
    assert (revised["task_id"], revised["state"]) == (str(earlier.pk), "completed")
    assert (revised["input"], revised["result"]) == (GOOD_INPUT, {"summary": "short"})
    assert [artifact["artifact_id"] for artifact in revised["artifacts"]] == ["result"]
    events = as_orchestrator.get(f"{TASKS}/{revision['task_id']}/events").json()
    assert events[0]["details"]["revises"] == str(earlier.pk)
    assert verification.verify().others == 2


def test_artifacts_beyond_what_one_response_holds_are_named(
    as_orchestrator, as_worker, earlier, monkeypatch
):
    monkeypatch.setattr(plain_json, "LARGEST_REVISED", 10)
    revise(as_orchestrator, earlier)
    revised = claimed(as_worker)["revises"]

    assert (revised["artifacts"], revised["left_out"]) == ([], ["result"])
    whole = as_worker.get(f"{TASKS}/{revised['task_id']}").json()
    assert [artifact["artifact_id"] for artifact in whole["artifacts"]] == ["result"]


def test_other_work_has_no_revision(as_orchestrator, as_worker, a_task):
    a_task(parts=[{"text": "a text"}])
    work = claimed(as_worker)

    assert (work["revises"], work["change_request"]) == (None, "")


def test_a_task_may_have_several_revisions(as_orchestrator, earlier):
    first, second = (revise(as_orchestrator, earlier).json() for _ in range(2))

    assert first["task_id"] != second["task_id"]
    assert {first["revision"], second["revision"]} == {1}


def test_a_repeated_request_for_a_revision_makes_one(as_orchestrator, earlier):
    headers = {"Idempotency-Key": "once"}
    first, again = (revise(as_orchestrator, earlier, **headers) for _ in range(2))

    assert first.json()["task_id"] == again.json()["task_id"]
    other = post(as_orchestrator, TASKS, {"skill": "consolidate", "input": GOOD_INPUT}, **headers)
    assert other.json()["code"] == "idempotency_key_reused"


def test_a_task_that_has_not_ended_has_no_revision(as_orchestrator, a_task):
    code, detail = refusal(as_orchestrator, a_task())

    assert code == "not_revisable"
    assert "has not ended: it is waiting for a worker" in detail


def test_a_task_of_another_agent_cannot_be_told_from_one_that_is_not_there(acme, earlier):
    stranger = Agent.objects.create(tenant=acme, slug="stranger", name="Stranger")
    as_stranger = speaking_as(stranger, Scope.SUBMIT)

    theirs = refusal(as_stranger, earlier)
    earlier.pk = uuid4()
    assert refusal(as_stranger, earlier) == theirs
    assert theirs[0] == "not_revisable"


def test_a_revision_is_of_the_same_skill(as_orchestrator, earlier, worker):
    Skill.objects.create(agent=worker, slug="translate", name="Translate")
    body = {"skill": "translate", "input": {}, "revises": str(earlier.pk)}

    reason = post(as_orchestrator, TASKS, body).json()["reason"]
    assert (reason["code"], "consolidate" in reason["detail"]) == ("not_revisable", True)


def test_erased_content_is_not_revised(as_orchestrator, earlier):
    Task.objects.filter(pk=earlier.pk).update(content_erased_at=timezone.now())

    assert "was erased" in refusal(as_orchestrator, earlier)[1]


def test_a_chain_of_revisions_has_an_end(as_orchestrator, earlier):
    Task.objects.filter(pk=earlier.pk).update(revision=MOST_REVISIONS)

    assert "at most 100 revisions" in refusal(as_orchestrator, earlier)[1]


def test_a_task_that_is_rejected_for_another_reason_lengthens_no_full_chain(orchestrator, earlier):
    Task.objects.filter(pk=earlier.pk).update(revision=MOST_REVISIONS)
    submission = Submission(skill="consolidate", input=GOOD_INPUT, revises=earlier.pk)
    may_not = caller_for(orchestrator, Scope.READ_ALL)

    rejected = submissions.submit(submission, caller=may_not, via="api").task
    assert rejected.reason_code == "missing_scope"
    assert (rejected.revises, rejected.revision) == (None, None)


def test_references_do_not_pass_for_those_who_may_answer(earlier):
    names = [str(earlier.pk)]
    plain, refers, named = (
        Submission(skill="consolidate", input=GOOD_INPUT, **more)
        for more in ({}, {"references": names}, {"may_answer": names})
    )

    assert len({each.fingerprint() for each in (plain, refers, named)}) == 3
    # Of requests that were stored before there were references and answerers.
    assert Submission("a", {"b": 1}).fingerprint() == (
        "3d6bc5ff1295793c2c8737d16c806358fa4d59403bbc8d092a8d1b63e9eacd4d"
    )


def test_the_number_of_a_revision_is_that_of_its_predecessor_plus_one(
    orchestrator, as_worker, earlier
):
    client = caller_for(orchestrator, Scope.SUBMIT)
    submission = Submission(skill="consolidate", input=GOOD_INPUT, revises=earlier.pk)
    second = submissions.submit(submission, caller=client, via="api").task
    tasks.cancel(second.pk, by=client.principal, via="api")
    submission = Submission(skill="consolidate", input=GOOD_INPUT, revises=second.pk)

    third = submissions.submit(submission, caller=client, via="api").task
    assert (second.revision, third.revision) == (1, 2)
    assert third.state == "submitted"
