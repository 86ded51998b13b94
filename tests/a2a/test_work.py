"""What workers do over REST besides working: read what is said, decline, hand over."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from django.db import connections

from a2a.models import Question, Skill, Task
from ledger.api.waiting.bells import changes
from ledger.models import Agent, Scope
from tests.a2a.test_plain_rest import TASKS, WORK, ask, claimed, post, submit
from tests.a2a.test_protocol import Peer
from tests.agents_at_work import GOOD_INPUT, speaking_as
from tests.asgi import requested, token_of
from tests.processes import until

pytestmark = pytest.mark.django_db


@pytest.fixture
def peer(orchestrator):
    return Peer(orchestrator, Scope.SUBMIT)


@pytest.fixture
def reviewer(acme):
    return Agent.objects.create(tenant=acme, slug="reviewer", name="Reviewer")


@pytest.fixture
def review(reviewer):
    return Skill.objects.create(agent=reviewer, slug="review", name="Review")


def say(peer, task_id, text, **said):
    sent = message(task_id, text, **said)
    peer.rpc("SendMessage", {"message": sent, "configuration": {"returnImmediately": True}})
    return sent


def message(task_id, text, **said):
    return {
        "messageId": str(uuid4()),
        "role": "ROLE_USER",
        "taskId": task_id,
        "parts": [{"text": text}],
        **said,
    }


@pytest.mark.django_db(transaction=True)  # the protocol works in threads
class TestMessages:
    def test_a_worker_reads_what_the_client_said_after_the_claim(
        self, peer, as_worker, consolidate
    ):
        task = peer.send()
        work = claimed(as_worker)
        follow_up = say(peer, task["id"], "Use the newer one.", metadata={"page": 3})

        there = f"{WORK}/{work['task_id']}/messages?cursor={work['messages_cursor']}"
        page = as_worker.get(there).json()

        assert [item["parts"] for item in page["items"]] == [[{"text": "Use the newer one."}]]
        assert page["items"][0]["message_id"] == follow_up["messageId"]
        assert page["items"][0]["metadata"] == {"page": 3}
        assert page["items"][0]["role"] == "user"
        later = as_worker.get(
            f"{WORK}/{work['task_id']}/messages?cursor={page['next_cursor']}"
        ).json()
        assert later == {"items": [], "next_cursor": page["next_cursor"]}

    def test_pages_follow_each_other_without_a_gap(self, peer, as_worker, consolidate):
        task = peer.send()
        work = claimed(as_worker)
        for number in range(3):
            say(peer, task["id"], str(number))

        cursor, texts = work["messages_cursor"], []
        for _ in range(3):
            page = as_worker.get(
                f"{WORK}/{work['task_id']}/messages?cursor={cursor}&limit=1"
            ).json()
            cursor = page["next_cursor"]
            texts += [item["parts"][0]["text"] for item in page["items"]]

        assert texts == ["0", "1", "2"]

    def test_a_waiting_worker_is_answered_when_something_is_said(
        self, peer, as_worker, consolidate
    ):
        task = peer.send()
        work = claimed(as_worker)

        def speak_when_it_waits() -> None:
            until(lambda: changes.number_of_subjects)
            say(peer, task["id"], "Go on.")
            connections.close_all()

        speak = threading.Thread(target=speak_when_it_waits)
        speak.start()

        page = requested(
            "GET",
            f"{WORK}/{work['task_id']}/messages?cursor={work['messages_cursor']}&wait=30",
            token_of(as_worker),
        ).json()
        speak.join()

        assert [item["parts"][0]["text"] for item in page["items"]] == ["Go on."]

    def test_nobody_but_its_worker_reads_them(
        self, peer, as_worker, as_orchestrator, consolidate, reviewer
    ):
        task = peer.send()
        claimed(as_worker)
        there = f"{WORK}/{task['id']}/messages"

        assert as_orchestrator.get(there).status_code == 403
        assert speaking_as(reviewer, Scope.WORK).get(there).status_code == 404
        assert as_worker.get(f"{WORK}/{uuid4()}/messages").status_code == 404


class TestDecline:
    def test_a_task_that_has_not_begun_is_rejected_with_the_workers_reason(
        self, as_orchestrator, as_worker, consolidate
    ):
        submit(as_orchestrator)
        work = claimed(as_worker)
        body = {"fencing_token": work["fencing_token"], "reason": "Not in French.", "code": "lang"}

        declined = post(as_worker, f"{WORK}/{work['task_id']}/decline", body)

        assert (declined.status_code, declined.json()["state"]) == (200, "rejected")
        task = as_orchestrator.get(f"{TASKS}/{work['task_id']}").json()
        assert task["reason"] == {
            "code": "declined",
            "detail": "Not in French.",
            "errors": [{"code": "lang"}],
        }
        assert Task.objects.get().events.last().kind == "task_declined"

    @pytest.mark.parametrize("begin", ["progress", "artifacts"])
    def test_what_has_begun_can_only_fail(self, as_orchestrator, as_worker, consolidate, begin):
        submit(as_orchestrator)
        work = claimed(as_worker)
        mine = {"fencing_token": work["fencing_token"]}
        there = f"{WORK}/{work['task_id']}"
        begun = {
            "progress": {"stage": "reading"},
            "artifacts": {"artifact_id": "a", "parts": [{"text": "a"}]},
        }
        post(as_worker, f"{there}/{begin}", {**mine, **begun[begin]})

        answer = post(as_worker, f"{there}/decline", {**mine, "reason": "no"})

        assert (answer.status_code, answer.json()["code"]) == (409, "task_not_possible")
        assert "fail" in answer.json()["hint"]
        assert Task.objects.get().state == "working"

    def test_without_the_lease_nothing_is_declined(self, as_orchestrator, as_worker, consolidate):
        submit(as_orchestrator)
        work = claimed(as_worker)
        body = {"fencing_token": work["fencing_token"] + 1, "reason": "no"}

        answer = post(as_worker, f"{WORK}/{work['task_id']}/decline", body)

        assert (answer.status_code, answer.json()["code"]) == (409, "task_lease_lost")
        assert Task.objects.get().state == "working"


class TestAnswers:
    @pytest.mark.django_db(transaction=True)  # the protocol works in threads
    def test_the_clients_answer_is_kept_as_it_was_sent(self, peer, as_worker, consolidate):
        task = peer.send()
        work = claimed(as_worker)
        ask(as_worker, work, form={"type": "object", "properties": {"day": {"type": "integer"}}})
        parts = [{"text": "The third."}, {"data": {"day": 3}}]
        answer = message(task["id"], "", parts=parts, metadata={"from": "calendar"})

        config = {"returnImmediately": True}
        answered = peer.rpc("SendMessage", {"message": answer, "configuration": config})

        kept = answered["result"]["task"]["history"][-1]
        assert kept["messageId"] == answer["messageId"]
        assert kept["parts"] == parts
        assert kept["metadata"] == {"from": "calendar"}
        assert Question.objects.get().answer == {"day": 3}


class TestHandOver:
    """A hand-over opens no door that the client would find shut."""

    @pytest.fixture
    def hand_over(self, as_orchestrator, as_worker, consolidate, review):
        submit(as_orchestrator)
        work = claimed(as_worker)

        def hand_over(**changed):
            Skill.objects.filter(slug="review").update(**changed)
            body = {"fencing_token": work["fencing_token"], "skill": "review", "reason": "legal"}
            return post(as_worker, f"{WORK}/{work['task_id']}/hand_over", body)

        return hand_over

    @pytest.mark.parametrize(
        ("terms", "reason"),
        [
            ({"required_scope": "legal"}, "missing_scope"),
            ({"required_scope": "work"}, "missing_scope"),  # the worker's own, not the client's
            ({"input_schema": {"required": ["contract"]}}, "schema_mismatch"),
            ({"max_concurrency": 0}, "over_capacity"),
            ({"drift": "another key"}, "card_drifted"),
            ({"requires_envelope": True}, "missing_correlation_fields"),
        ],
    )
    def test_the_terms_of_the_new_skill_are_the_clients(self, hand_over, terms, reason):
        answer = hand_over(**terms)

        assert (answer.status_code, answer.json()["code"]) == (422, "hand_over_refused")
        assert answer.json()["reason"] == reason
        task = Task.objects.get()
        assert (task.state, task.skill_slug, task.owner) == (
            "working",
            "consolidate",
            "agent:acme/archivist",
        )
        assert (
            hand_over(
                required_scope="",
                input_schema={},
                max_concurrency=1,
                drift="",
                requires_envelope=False,
            ).json()["state"]
            == "submitted"
        )

    def test_a_client_of_another_tenant_is_not_led_to_a_skill_that_is_not_open_to_it(
        self, stranger, as_worker, consolidate, review
    ):
        Skill.objects.filter(slug="consolidate").update(open_to=["globex"])
        envelope = {
            "trace_id": "a" * 32,
            "message_id": "m1",
            "idempotency_key": "k1",
            "from": "helpdesk",
            "to": "archivist",
            "tenant": "acme",
            "capability": "consolidate",
            "audience": "assent",
            "scopes": ["submit"],
            "timeout_s": 60,
        }
        body = {"skill": "consolidate", "input": GOOD_INPUT, "envelope": envelope}
        post(speaking_as(stranger, Scope.SUBMIT), TASKS, body)
        work = claimed(as_worker)
        handed = {"fencing_token": work["fencing_token"], "skill": "review"}

        answer = post(as_worker, f"{WORK}/{work['task_id']}/hand_over", handed)

        assert (answer.status_code, answer.json()["reason"]) == (422, "tenant_boundary")

    def test_an_envelope_that_lent_no_scope_lends_none_to_the_next_skill(
        self, orchestrator, as_worker, consolidate, review
    ):
        Skill.objects.filter(slug="review").update(required_scope="legal")
        client = speaking_as(orchestrator, Scope.SUBMIT, "legal")
        lending = {"skill": "consolidate", "input": GOOD_INPUT, "envelope": {"scopes": ["submit"]}}
        for body, status in ((lending, 422), ({**lending, "envelope": None}, 200)):
            post(client, TASKS, body)
            work = claimed(as_worker)
            handed = {"fencing_token": work["fencing_token"], "skill": "review"}

            answer = post(as_worker, f"{WORK}/{work['task_id']}/hand_over", handed)

            assert answer.status_code == status, answer.json()


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9007199254740993", "1" + "0" * 5000])
def test_a_number_that_nobody_could_read_back_is_refused(as_orchestrator, consolidate, number):
    body = f'{{"skill": "consolidate", "input": {{"transcripts": [], "n": {number}}}}}'

    answer = as_orchestrator.post(TASKS, body, content_type="application/json")

    assert answer.status_code in {400, 422}, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert not Task.objects.exists()
