"""Envelopes as others write them: read like ours, and never ignored because of a spelling."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest

from a2a import submissions
from a2a.models import Skill, Task
from a2a.submissions import Submission
from a2a.validation.extensions import ENVELOPE_EXTENSION
from ledger.models import Scope
from tests.a2a.test_protocol import Peer
from tests.agents_at_work import GOOD_INPUT, caller_for

pytestmark = pytest.mark.django_db(transaction=True)

UUID_WITH_DASHES = "8f14e45f-ceea-467f-9a36-dcc2e7a5f0b1"


@pytest.fixture
def send(orchestrator, consolidate):
    def send(envelope, agent=None, **said):
        submission = Submission(
            **{"skill": "consolidate", "input": GOOD_INPUT, **said}, envelope=envelope
        )
        caller = caller_for(agent or orchestrator, Scope.SUBMIT)
        return submissions.submit(submission, caller=caller, via="api").task

    return send


def as_the_article_writes_it(**said):
    """``AgentMessageEnvelope`` of the interoperability article, member by member."""
    return {
        "traceId": UUID_WITH_DASHES,
        "messageId": str(uuid4()),
        "idempotencyKey": str(uuid4()),
        "fromAgent": "orchestrator",
        "toAgent": "archivist",
        "tenantId": "acme",
        "capability": "consolidate",
        "auth": {"audience": "archivist", "scopes": ["submit"]},
        "timeoutMs": 60_000,
        "payload": GOOD_INPUT,
        **said,
    }


def as_its_repository_writes_it(**said):
    """The names of its schemas and tests: snake case, ``task_type``, ``ts`` in milliseconds."""
    return {
        "id": "t1",
        "task_type": "consolidate",
        "trace_id": UUID_WITH_DASHES,
        "message_id": str(uuid4()),
        "from_agent": "orchestrator",
        "to_agent": "archivist",
        "tenant_id": "acme",
        "auth": {"audience": "archivist", "scopes": ["submit"]},
        "meta": {
            "ts": int(time.time() * 1000),
            "idempotency_key": str(uuid4()),
            "timeout_ms": 60_000,
        },
        **said,
    }


@pytest.mark.parametrize("written", [as_the_article_writes_it, as_its_repository_writes_it])
def test_an_envelope_in_anothers_spelling_is_let_in_and_read(send, written):
    envelope = written()

    task = send(envelope)

    assert (task.state, task.reason) == ("submitted", "")
    assert task.trace_id == UUID_WITH_DASHES.replace("-", "")
    key = envelope.get("idempotencyKey") or envelope["meta"]["idempotency_key"]
    assert task.idempotency_key == key
    assert task.envelope_message_id == (envelope.get("messageId") or envelope["message_id"])
    assert (task.expires_at - task.created_at).total_seconds() == pytest.approx(60, abs=5)


@pytest.mark.parametrize("written", [as_the_article_writes_it, as_its_repository_writes_it])
def test_it_is_whole_enough_to_cross_tenants(send, stranger, written):
    Skill.objects.update(open_to=["globex"])
    names = {"fromAgent": "helpdesk"} if "fromAgent" in written() else {"from_agent": "helpdesk"}

    task = send(written(**names), agent=stranger)

    assert (task.state, task.reason) == ("submitted", "")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"toAgent": "helpdesk"}, "wrong_audience"),
        ({"to_agent": "helpdesk", "toAgent": None}, "wrong_audience"),
        ({"auth": {"audience": "somebody-else", "scopes": ["submit"]}}, "wrong_audience"),
        ({"auth": {"aud": "somebody-else", "scopes": ["submit"]}}, "wrong_audience"),
        ({"fromAgent": "mallory"}, "tenant_boundary"),
        ({"tenantId": "globex"}, "tenant_boundary"),
        ({"tenant_id": "globex", "tenantId": None}, "tenant_boundary"),
        ({"TenantID": "globex", "tenantId": None}, "tenant_boundary"),
        ({"capability": None, "task_type": "other"}, "unsupported_capability"),
        ({"auth": {"audience": "archivist", "scopes": []}}, "missing_scope"),
        ({"ts": "2020-01-01T00:00:00Z"}, "expired"),
        ({"ts": 1_577_836_800_000}, "expired"),
        ({"timeoutMs": "soon"}, "schema_mismatch"),
        ({"timeoutMs": True}, "schema_mismatch"),
        ({"timeoutMs": -5}, "schema_mismatch"),
        ({"auth": {"audience": "archivist", "scopes": "submit"}}, "schema_mismatch"),
        ({"tenant": "globex"}, "schema_mismatch"),  # beside tenantId: "acme"
    ],
)
def test_no_check_is_passed_by_writing_a_member_differently(send, changed, reason):
    Skill.objects.update(required_scope=Scope.SUBMIT)

    task = send(as_the_article_writes_it(**changed))

    assert (task.state, task.reason_code) == ("rejected", reason), task.reason


@pytest.mark.parametrize("envelope", [{}, {"version": "1.0"}, {"reply_to": "x", "payload": {}}])
def test_an_envelope_without_any_known_member_is_refused_not_ignored(send, envelope):
    task = send(envelope)

    assert (task.state, task.reason_code) == ("rejected", "missing_correlation_fields")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (UUID_WITH_DASHES, UUID_WITH_DASHES.replace("-", "")),
        (UUID_WITH_DASHES.upper(), UUID_WITH_DASHES.replace("-", "")),
        ("A" * 32, "a" * 32),
        ("trace/2026-11 №7", "trace/2026-11 №7"),
    ],
)
def test_a_trace_id_may_be_any_text_and_a_uuid_is_the_w3c_one(send, sent, kept):
    assert send(as_the_article_writes_it(traceId=sent)).trace_id == kept


def test_a_trace_is_found_by_the_id_that_its_sender_knows(send, as_orchestrator):
    task = send(as_the_article_writes_it())

    found = as_orchestrator.get("/api/v1/tasks", {"trace_id": UUID_WITH_DASHES}).json()["items"]

    assert [item["task_id"] for item in found] == [str(task.pk)]


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 10**15, -(10**15)])
@pytest.mark.parametrize("member", ["sent_at", "ts"])
def test_a_clock_that_was_never_set_is_a_mismatch_not_a_failure(
    as_orchestrator, consolidate, at, member
):
    body = {"skill": "consolidate", "input": GOOD_INPUT, "envelope": {member: at, "timeout_s": 60}}

    answer = as_orchestrator.post("/api/v1/tasks", body, content_type="application/json")

    assert (answer.status_code, answer.json()["reason"]["code"]) == (201, "schema_mismatch")


@pytest.mark.parametrize(
    ("changed", "skill", "reason"),
    [
        ({"auth": {"audience": "nobody"}}, "nothing", "unsupported_capability"),
        ({"toAgent": "nobody"}, "nothing", "unsupported_capability"),
        ({"tenantId": "globex", "auth": {"audience": "nobody"}}, "consolidate", "tenant_boundary"),
        ({"tenantId": "globex"}, "nothing", "tenant_boundary"),
    ],
)
def test_the_skill_is_looked_up_before_the_audience(send, changed, skill, reason):
    task = send(as_the_article_writes_it(capability=skill, **changed), skill=skill)

    assert task.reason_code == reason, task.reason


def test_a_skill_may_require_an_envelope_of_its_own_tenant_too(send):
    assert send(None).state == "submitted"
    Skill.objects.update(requires_envelope=True)

    bare, partial = send(None), send({"trace_id": "a" * 32})

    assert {bare.reason_code, partial.reason_code} == {"missing_correlation_fields"}
    assert "message_id" in partial.reason
    assert "trace_id" not in partial.reason
    assert send(as_the_article_writes_it()).state == "submitted"


def test_the_card_says_which_skills_require_an_envelope(orchestrator, consolidate):
    Skill.objects.update(requires_envelope=True)
    card = Peer(orchestrator, Scope.SUBMIT).rpc("GetExtendedAgentCard")["result"]

    terms = [
        extension["params"]["skills"]
        for extension in card["capabilities"]["extensions"]
        if "skills" in extension.get("params", {})
    ]
    assert terms[0]["consolidate"]["requires_envelope"] is True


def test_by_a2a_the_skill_may_stand_in_the_envelope_alone(orchestrator, consolidate):
    envelope = as_its_repository_writes_it()

    task = Peer(orchestrator, Scope.SUBMIT).send(
        metadata={ENVELOPE_EXTENSION: envelope}, parts=[{"data": GOOD_INPUT}]
    )

    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert Task.objects.get().skill_slug == "consolidate"


def test_a_token_that_may_not_submit_leaves_nothing_of_what_it_sent(orchestrator, consolidate):
    submission = Submission(
        "consolidate",
        {"transcripts": ["secret"]},
        parts=[{"text": "secret"}],
        metadata={"note": "secret"},
    )
    caller = caller_for(orchestrator, Scope.WORK)

    task = submissions.submit(submission, caller=caller, via="api").task

    task.refresh_from_db()
    assert (task.state, task.reason_code) == ("rejected", "missing_scope")
    assert (task.input, task.metadata) == (None, {})
    assert "secret" not in str(task.messages.get().parts)
