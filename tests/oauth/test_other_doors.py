"""A token that is for /mcp alone, at the doors that answer without Django."""

from __future__ import annotations

import pytest

from a2a.protocol.fast_path import visible_tasks
from ledger.models import AgentToken, Scope
from tests.a2a.test_protocol import Peer
from tests.asgi import requested
from tests.conftest import propose

pytestmark = pytest.mark.django_db(transaction=True)


def for_mcp(agent):
    return AgentToken.issue(agent, scopes=[Scope.PROPOSE, Scope.SUBMIT], resource="mcp")


def test_it_reads_no_transaction_by_rest(helpdesk):
    row, (_, token) = propose(), for_mcp(helpdesk)
    path = f"/api/v1/transactions/{row.pk}"

    answers = [requested("GET", each, token) for each in (path, f"{path}?wait=0.1")]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert requested("GET", path, AgentToken.issue(helpdesk, scopes=["propose"])[1]).json()


def test_it_reads_no_task_by_a2a(orchestrator, consolidate):
    peer = Peer(orchestrator, Scope.SUBMIT)
    task = peer.send()["id"]
    row, peer.token = for_mcp(orchestrator)

    assert "error" in peer.rpc("GetTask", {"id": task})
    assert peer.http("GET", f"/a2a/rest/tasks/{task}").status_code == 401
    assert visible_tasks([(row.token_hash, task)]) == [None]
