"""Every door answers a proposal of what is stopped with the reason, and prepares nothing."""

from __future__ import annotations

import pytest
from django.urls import reverse

from a2a import submissions
from a2a.builtin import prepare_transaction
from a2a.models import Task
from a2a.submissions import Submission
from ledger.agents import Caller
from ledger.errors import Paused
from ledger.models import AgentToken, Scope, Transaction
from ledger.principals import Principal
from ledger.states import State
from ledger.transactions import coordinator
from tests.brakes.conftest import WHY

pytestmark = pytest.mark.django_db(transaction=True)
PAY = {"tool": "pay", "arguments": {"reference": "order-7", "amount": "48.20"}}


@pytest.mark.of_app("a2a.doors.mcp_server")
def test_over_mcp(helpdesk, stop):
    from tests.mcp.wire import result_of, say

    stop("acme")
    token = AgentToken.issue(helpdesk, scopes=["propose"])[1]

    result = result_of(
        say(token, "tools/call", {"name": PAY["tool"], "arguments": PAY["arguments"]})
    )

    assert result["isError"]
    assert WHY in str(result["content"])
    assert not Transaction.objects.exists()


def test_over_a2a(helpdesk, stop):
    caller = Caller(
        Principal("agent", "acme/helpdesk"), "acme", frozenset({Scope.SUBMIT, Scope.PROPOSE})
    )
    stop("acme")

    submission = Submission(skill="prepare_transaction", input=PAY)
    task = submissions.submit(submission, caller=caller, via="a2a").task
    for claimed in Task.objects.filter(pk=task.pk, state="working"):
        prepare_transaction.prepare(claimed)

    ended = Task.objects.get(pk=task.pk)
    assert ended.state == "failed"
    assert "paused" in str(ended.errors)
    assert WHY in ended.reason
    assert not Transaction.objects.exists()


@pytest.mark.of_app("a2a.doors.humanlayer")
def test_over_humanlayer_and_what_was_called_is_not_handed_over(
    helpdesk, alice, as_alice, stop, let_go_on
):
    from tests.humanlayer.conftest import HumanLayer

    humanlayer = HumanLayer(AgentToken.issue(helpdesk, scopes=["propose", "submit"])[1])
    assert humanlayer.call(call_id="call-1").status_code < 300
    row = Transaction.objects.get()
    brake = stop("acme", tool=row.tool)

    refused = humanlayer.call(call_id="call-2")
    with pytest.raises(Paused):
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    assert refused.status_code == 409
    assert WHY in refused.content.decode()
    assert Transaction.objects.get().state == State.PREPARED
    page = f"{reverse('desk:stop')}?tenant=acme&tool={row.tool}"
    assert as_alice.get(page).status_code == 200

    let_go_on(brake)
    row = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    assert row.state == State.HANDED_OVER
