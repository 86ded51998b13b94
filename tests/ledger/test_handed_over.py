"""A call that the agent carries out itself ends with its sign-off, and never as succeeded."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.core.management import call_command

from a2a.doors.humanlayer.calls.tool import HandedOverCall, tool_name_of
from ledger import execution
from ledger.api.rendering import render_token
from ledger.models import Transaction
from ledger.principals import Principal, Surface
from ledger.proof.log import checkpoints
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal
from ledger.transactions.outcomes import outcome_of

pytestmark = pytest.mark.django_db
HELPDESK = Principal("agent", "acme/helpdesk", "Helpdesk agent")


@pytest.fixture
def a_call(acme):
    def propose(**arguments):
        key = uuid4().hex
        tool = HandedOverCall(
            tool_name_of("send_email"),
            operation_key=f"humanlayer:{HELPDESK}:{key}",
            warnings=["Sent from outside."],
            kept={"state": {"step": 1}},
        )
        answer = coordinator.prepare(
            Proposal(tool.name, arguments),
            by=HELPDESK,
            tenant="acme",
            key=key,
            via=Surface("humanlayer"),
            render=render_token,
            tool=tool,
        )
        return Transaction.objects.get(pk=answer.transaction_id)

    return propose


def sign_off(row, by):
    return coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")


def kinds_of(row):
    return [event.kind for event in row.events.order_by("seq")]


def test_it_waits_under_the_strictest_contract_with_its_arguments_in_sight(a_call):
    row = a_call(to="ann@example.com", body="Hello")

    assert row.action_summary == "Send email: to ann@example.com, body Hello"
    assert row.arguments == {"to": "ann@example.com", "body": "Hello"}
    assert (row.payload, row.held) == (row.arguments, {"state": {"step": 1}})
    assert row.warnings == ["Sent from outside."]
    assert (row.risk_level, row.required_approver, row.consequence_level) == (
        "HIGH",
        "HUMAN",
        "IRREVERSIBLE",
    )


def test_its_sign_off_hands_it_to_the_agent_and_no_worker_touches_it(a_call, alice):
    row = sign_off(a_call(to="ann@example.com"), alice)

    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.ledger_status, row.receipt) == ("handed_over", "handed_over", "")
    assert kinds_of(row) == ["prepared", "approved", "handed_over"]
    outcome = outcome_of(row)
    assert (outcome.kind, outcome.is_final, outcome.do_not_retry) == ("handed_over", True, True)
    checkpoints.make()
    call_command("verify_ledger")


def test_what_was_changed_after_it_was_proposed_is_not_handed_over(a_call, alice):
    row = a_call(to="ann@example.com")
    Transaction.objects.filter(pk=row.pk).update(arguments={"to": "eve@example.com"})

    row = sign_off(row, alice)
    assert row.state == "approved"
    execution.commit(row.pk)

    row.refresh_from_db()
    assert "handed_over" not in kinds_of(row)
    assert row.state != "handed_over"


def test_what_was_rejected_ends_without_effect(a_call, alice):
    row = a_call(to="ann@example.com")

    coordinator.reject(
        row.pk, digest=row.intent_digest, by=alice, via="web", reason="Wrong address."
    )
    execution.roll_back(row.pk)

    row.refresh_from_db()
    assert (row.state, row.ending) == ("aborted", "rejected")


def test_no_name_leads_to_it_from_outside(as_helpdesk):
    answer = as_helpdesk.propose("humanlayer.send_email", arguments={"to": "ann@example.com"})

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_tool")
