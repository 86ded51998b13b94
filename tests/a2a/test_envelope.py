"""Who sends what to whom on whose behalf: each reason to deny, and versions that grow."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import jsonschema_rs
import pytest
from django.utils import timezone

from a2a import submissions, tasks
from a2a.cards.published import SCHEMAS
from a2a.models import Skill, Task
from a2a.submissions import Submission
from a2a.submissions.envelope import Envelope
from a2a.validation.extensions import ENVELOPE_EXTENSION
from ledger.agents import Caller
from ledger.models import Agent, Scope, Tenant
from tests.a2a.test_protocol import Peer
from tests.agents_at_work import GOOD_INPUT, caller_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def send(orchestrator, consolidate):
    def send(envelope, scopes=(Scope.SUBMIT,), agent=None, key="", **said):
        submission = Submission(
            **{"skill": "consolidate", "input": GOOD_INPUT, **said},
            envelope=envelope,
            idempotency_key=key,
        )
        caller = caller_for(agent or orchestrator, *scopes)
        return submissions.submit(submission, caller=caller, via="api").task

    return send


def whole(**said):
    """An envelope with everything that a delegated or crossing request needs."""
    return {
        "version": "1.0",
        "trace_id": "a" * 32,
        "message_id": str(uuid4()),
        "idempotency_key": str(uuid4()),
        "from": "orchestrator",
        "to": "archivist",
        "tenant": "acme",
        "capability": "consolidate",
        "audience": "assent",
        "scopes": ["submit"],
        "timeout_s": 600,
        "delegation_depth": 0,
        **said,
    }


@pytest.mark.parametrize(
    ("envelope", "state"),
    [
        (None, "rejected"),
        ({"from": "orchestrator"}, "rejected"),
        ({"ts": "2026-11-22T10:00:00Z"}, "rejected"),
        ({"from": "mallory", "ts": "2026-11-22T10:00:00Z"}, "rejected"),
        ({"from": "orchestrator", "ts": "2026-11-22T10:00:00Z"}, "submitted"),
    ],
)
def test_a_tenant_may_demand_that_requests_name_their_sender_and_time(send, envelope, state):
    Tenant.objects.update(demands_sender=True)

    assert send(envelope).state == state


def test_people_who_are_signed_in_need_not_name_themselves(send, alice, consolidate):
    Tenant.objects.update(demands_sender=True)
    caller = Caller(alice, "acme", frozenset({Scope.SUBMIT}))
    submission = Submission(skill="consolidate", input=GOOD_INPUT)

    assert submissions.submit(submission, caller=caller, via="web").task.state == "submitted"


def test_a_tenant_may_demand_that_requests_name_the_scopes_that_they_lend(send, consolidate):
    Skill.objects.update(required_scope="finance")
    scopes = (Scope.SUBMIT, "finance")
    assert send(None, scopes).lent_scopes == ["finance", "submit"]
    Tenant.objects.update(demands_scopes=True)

    unnamed, named = send(None, scopes), send({"scopes": ["submit", "finance"]}, scopes)

    assert (unnamed.state, unnamed.reason_code) == ("rejected", "missing_scope")
    assert (named.state, named.lent_scopes) == ("submitted", ["finance", "submit"])
    Skill.objects.update(required_scope="")
    assert send(None, scopes).lent_scopes == ["submit"], "nor is it handed on with more"


def test_a_whole_envelope_is_let_in_and_its_trace_kept(send):
    task = send(whole(timeout_s=60))

    assert (task.state, task.trace_id) == ("submitted", "a" * 32)
    assert task.expires_at <= timezone.now() + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"audience": "somebody-else"}, "wrong_audience"),
        ({"to": "helpdesk"}, "wrong_audience"),
        ({"from": "mallory"}, "tenant_boundary"),
        ({"tenant": "globex"}, "tenant_boundary"),
        ({"capability": "other"}, "unsupported_capability"),
        ({"sent_at": "2020-01-01T00:00:00Z"}, "expired"),
        ({"delegation_depth": 1}, "missing_correlation_fields"),
        ({"parent_task": str(uuid4()), "delegation_depth": 1}, "tenant_boundary"),
        ({"version": "2.0"}, "schema_mismatch"),
        ({"timeout_s": -1}, "schema_mismatch"),
        ({"trace_id": "z" * 129}, "schema_mismatch"),
        ({"scopes": "all"}, "schema_mismatch"),
    ],
)
def test_each_wrong_envelope_is_denied_with_its_reason(send, said, code):
    task = send(whole(**said))

    assert (task.state, task.reason_code) == ("rejected", code), task.reason
    assert task.events.get().kind == "task_rejected"


def test_an_envelope_that_is_no_object_is_denied(send):
    assert send("x").reason_code == "schema_mismatch"


def test_scopes_come_with_the_token_and_an_envelope_only_lends_fewer(send):
    Skill.objects.update(required_scope="transcripts")

    assert send(whole()).reason_code == "missing_scope"
    assert send(whole(scopes=["submit", "transcripts"])).reason_code == "missing_scope"
    both = (Scope.SUBMIT, "transcripts")
    assert send(whole(), scopes=both).reason_code == "missing_scope"
    assert send(whole(scopes=["submit", "transcripts"]), scopes=both).state == "submitted"
    assert send(None, scopes=both).state == "submitted"
    assert send(None, scopes=()).reason_code == "missing_scope"


def test_the_same_message_with_another_key_is_a_duplicate(send):
    first = send(whole(message_id="m1"))
    again = send(whole(message_id="m1"))

    assert (first.state, again.state, again.reason_code) == (
        "submitted",
        "rejected",
        "duplicate_message",
    )


def test_the_same_message_with_the_same_key_is_the_same_task(send):
    said = whole()
    assert send(said).pk == send(said).pk
    assert Task.objects.count() == 1


def test_the_input_is_held_to_the_skills_schema(send):
    task = send(whole(), input={"transcripts": 5})

    assert task.reason_code == "schema_mismatch"
    assert task.errors[0]["field"] == "transcripts"


def test_another_tenant_needs_an_open_skill_and_a_whole_envelope(send, stranger):
    def crossing():
        return whole(**{"from": "helpdesk"})

    assert send(crossing(), agent=stranger).reason_code == "tenant_boundary"
    Skill.objects.update(open_to=["globex"])

    assert send(None, agent=stranger).reason_code == "missing_correlation_fields"
    for name in ("trace_id", "audience", "scopes", "timeout_s", "to"):
        lacking = {key: value for key, value in crossing().items() if key != name}
        denied = send(lacking, agent=stranger)
        assert denied.reason_code == "missing_correlation_fields", name
    let_in = send(crossing(), agent=stranger)
    assert (let_in.state, let_in.tenant, let_in.submitted_by) == (
        "submitted",
        "acme",
        "agent:globex/helpdesk",
    )


class TestDelegation:
    """Children of a task: one level deeper, never in a circle, never too deep."""

    @pytest.fixture
    def parent(self, a_claimed_task):
        return a_claimed_task()

    @pytest.fixture
    def delegate(self, send, worker, acme):
        reviewer = Agent.objects.create(tenant=acme, slug="reviewer", name="Reviewer")
        Skill.objects.create(agent=reviewer, slug="review", name="Review")

        def delegate(parent, depth, skill="review", to="reviewer"):
            said = whole(
                **{"from": "archivist", "to": to, "capability": skill},
                parent_task=str(parent.pk),
                delegation_depth=depth,
            )
            return send(said, agent=worker, skill=skill, input=GOOD_INPUT)

        return delegate

    def test_a_child_knows_its_parent_and_depth(self, parent, delegate):
        child = delegate(parent, 1)

        assert (child.state, child.parent_id, child.depth) == ("submitted", parent.pk, 1)

    def test_a_wrong_depth_is_over_budget(self, parent, delegate):
        assert delegate(parent, 3).reason_code == "delegation_budget"

    def test_too_deep_is_over_budget(self, parent, delegate, settings):
        settings.DELEGATION_BUDGET = 0
        assert delegate(parent, 1).reason_code == "delegation_budget"

    def test_the_same_skill_above_is_a_loop(self, parent, delegate):
        denied = delegate(parent, 1, skill="consolidate", to="archivist")
        assert denied.reason_code == "delegation_loop"

    def test_a_parent_that_has_ended_has_no_children(self, parent, delegate, orchestrator):
        tasks.cancel(parent.pk, by=orchestrator.principal, via="api")
        assert delegate(parent, 1).reason_code == "expired"

    def test_canceling_the_parent_cancels_its_children(self, parent, delegate, orchestrator):
        child = delegate(parent, 1)
        tasks.cancel(parent.pk, by=orchestrator.principal, via="api")

        child.refresh_from_db()
        assert (child.state, child.reason_code) == ("canceled", "parent_ended")

    def test_a_child_has_the_trace_of_its_parent(self, delegate, a_claimed_task):
        parent = a_claimed_task(trace_id="b" * 32)
        assert delegate(parent, 1).trace_id == "a" * 32, "the envelope's own, if it has one"


@pytest.mark.django_db(transaction=True)  # the protocol works in threads
def test_it_travels_as_metadata_under_its_extension(orchestrator, consolidate):
    peer = Peer(orchestrator, Scope.SUBMIT)
    task = peer.send(metadata={ENVELOPE_EXTENSION: whole(audience="nobody")})

    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    reason = task["metadata"]["urn:assent:a2a:task:1"]["reason"]
    assert reason["code"] == "wrong_audience"


def test_the_published_schemas_say_what_we_take_and_give(client, send):
    schema = client.get("/a2a/schemas/envelope-1.json").json()
    envelope = jsonschema_rs.Draft202012Validator(schema)
    assert envelope.is_valid(whole())
    assert not envelope.is_valid(whole(version="2.0"))
    assert client.get("/a2a/schemas/nothing.json").status_code == 404

    from a2a.wire.to_json import facts_of

    task = jsonschema_rs.Draft202012Validator(client.get("/a2a/schemas/task-1.json").json())
    assert task.is_valid(facts_of(send(whole(audience="nobody"))))


def test_a_later_minor_version_is_understood_by_this_one_and_this_one_by_a_later(send):
    later = whole(version="1.7", something_new={"a": 1})
    assert send(later).state == "submitted"
    assert jsonschema_rs.is_valid(SCHEMAS["envelope-1.json"], later)

    # What a later reader requires may not be more than this version writes.
    now = Envelope.model_validate(whole()).model_dump(by_alias=True, exclude_none=True, mode="json")
    assert jsonschema_rs.is_valid(SCHEMAS["envelope-1.json"], now)
    assert SCHEMAS["envelope-1.json"].get("required", []) == []
