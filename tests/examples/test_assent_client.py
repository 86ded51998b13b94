"""The client for agent frameworks, against a real Assent; ``test_conformance.py`` plays one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from examples.frameworks.assent_client import Assent, AsyncAssent, verify_webhook
from ledger import execution
from ledger.delivery.webhooks import channel
from ledger.models import Agent, AgentToken, Scope, Transaction
from ledger.transactions import coordinator

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes ....").decode()


def test_a_webhook_as_assent_signs_it_is_verified():
    post = channel.signed("https://agent.example", SECRET, "msg_1", {"type": "x", "data": {}})

    assert verify_webhook(post.headers, post.body, SECRET) == {"type": "x", "data": {}}


@pytest.fixture
def desk(credentials: tuple[str, str]) -> Iterator[Assent]:
    desk = Assent(*credentials)
    yield desk
    desk.close()


@pytest.fixture
def credentials(live_server: Any, settings: Any, helpdesk: Agent) -> tuple[str, str]:
    settings.PUBLIC_URL = settings.LIVE_URL = live_server.url
    _, token = AgentToken.issue(helpdesk, scopes=[Scope.PROPOSE, Scope.SUBMIT])
    return live_server.url, token


@pytest.mark.django_db(transaction=True)
def test_both_clients_propose_the_same_transaction_and_read_its_outcome(desk, credentials, alice):
    said = ("pay", {"reference": "o1", "amount": "48.20"})
    intent = desk.prepare(*said, key="k1")

    async def elsewhere() -> tuple[str, Any, list[str]]:
        other = AsyncAssent(*credentials)
        again = await other.prepare(*said, key="k1")
        coordinated = await other.wait(again.transaction_id, timeout=0)
        names = [tool.name for tool in await other.tools()]
        await other.close()
        return again.transaction_id, coordinated, names

    again, waiting, names = asyncio.run(elsewhere())
    row = Transaction.objects.get()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)
    outcome = desk.wait(intent.transaction_id, timeout=5)

    assert (again, waiting.kind) == (intent.transaction_id, "pending")
    assert {"pay", "look_up"} <= set(names)
    assert (outcome.kind, outcome.decided_by) == ("succeeded", ["Alice Moreau"])
    assert outcome.for_model()["receipt"] == Transaction.objects.get().receipt


@pytest.mark.django_db(transaction=True)
def test_a_proposal_is_taken_back_and_a_reading_answered(desk):
    intent = desk.prepare("pay", {"reference": "o1", "amount": "48.20"})

    outcome = desk.cancel(intent.transaction_id, "The customer called.")

    assert (outcome.kind, outcome.is_final, outcome.do_not_retry) == ("withdrawn", True, True)
    assert "The customer called." in outcome.for_model()["message"]
    assert desk.call("look_up", {"word": "lamp"})


@pytest.mark.django_db(transaction=True)
def test_a_real_question_is_answered_and_what_was_sent_back_is_replaced(desk, alice):
    desk._on_question = lambda outcome: "The one of March."
    intent = desk.prepare("refund", {"order": "o1", "amount": "482.00"})
    row = coordinator.ask(UUID(intent.transaction_id), by=alice, via="web", text="Which lamp?")

    assert desk.get(intent.transaction_id).question == ""
    coordinator.send_back(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Less.")
    execution.roll_back(row.pk)
    outcome = desk.wait(intent.transaction_id, timeout=5)

    assert outcome.change_request == "Less."
    arguments = {"order": "o1", "amount": "48.20"}
    again = desk.prepare("refund", arguments, replaces=outcome.transaction_id)
    assert str(Transaction.objects.get(pk=again.transaction_id).replaces) == outcome.transaction_id
