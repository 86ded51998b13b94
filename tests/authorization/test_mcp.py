"""Every tool and method at ``/mcp``, by every agent with every scope: what ``table.csv`` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from a2a.doors.mcp_server.methods import METHODS
from ledger.foundation import doorbell
from ledger.limits import rates
from ledger.models import Scope
from tests.authorization import table
from tests.authorization.scene import AGENTS, COLUMNS, RECORDS, Scene
from tests.conftest import propose
from tests.mcp.wire import message_in, say

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


def _call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    meta = {"assent/hold-s": 0}
    return "tools/call", {"name": name, "arguments": arguments, "_meta": meta}


# Name in the table → method, and its parameters for a transaction and a number.
CALLS: dict[str, Callable[[Any, int], tuple[str, dict[str, Any]]]] = {
    "server/discover": lambda row, number: ("server/discover", {}),
    "tools/list": lambda row, number: ("tools/list", {}),
    "tools/call pay": lambda row, number: _call("pay", reference=uuid4().hex, amount="1"),
    "tools/call look_up": lambda row, number: _call("look_up", word="x"),
    "tools/call ask_a_person": lambda row, number: _call("ask_a_person", text=f"Is it {number}?"),
    "tools/call assent_wait": lambda row, number: _call("assent_wait", transaction_id=str(row.pk)),
    "tools/call assent_answer": lambda row, number: _call(
        "assent_answer", transaction_id=str(row.pk), text="It is."
    ),
    "tools/call assent_cancel": lambda row, number: _call(
        "assent_cancel", transaction_id=str(row.pk)
    ),
    "tasks/get": lambda row, number: ("tasks/get", {"taskId": str(row.pk)}),
    "tasks/update": lambda row, number: ("tasks/update", {"taskId": str(row.pk)}),
    "tasks/cancel": lambda row, number: ("tasks/cancel", {"taskId": str(row.pk)}),
}
# Those of older revisions; they are answered to every token, and touch nothing.
OLDER = {"initialize", "ping"}


def test_every_method_is_in_the_table():
    assert set(METHODS) - OLDER == {name.partition(" ")[0] for name in CALLS}


def test_every_agent_gets_what_the_table_says(acme):
    scene = Scene()
    seen = {
        f"MCP {name}": {"anonymous": "401", **{who: cell(scene, name, who) for who in AGENTS}}
        for name in CALLS
    }
    if RECORDS:
        rows = {name: row for name, row in table.read().items() if not name.startswith("MCP ")}
        table.write(rows | seen, COLUMNS)
        return
    rows = {name: row for name, row in table.read().items() if name.startswith("MCP ")}

    assert {name: {who: row[who] for who in seen[name]} for name, row in rows.items()} == seen


def cell(scene: Scene, name: str, who: str) -> str:
    statuses = {}
    for number, scope in enumerate([table.NO_SCOPE, *Scope.values]):
        doorbell.redis().flushdb()
        rates.forget()
        statuses[scope] = outcome(scene.tokens[who, scope], name, number)
    return table.cell_of(statuses)


def outcome(token: str, name: str, number: int) -> str:
    """200, or the code of the refusal."""
    row = propose("pay", agent="owner")
    method, params = CALLS[name](row, number)
    message = message_in(say(token, method, params, tasks=method.startswith("tasks/")))
    if "error" in message:
        return str(message["error"]["code"])
    body = message["result"].get("structuredContent") or {}
    return str(body.get("code", "200"))


@pytest.mark.parametrize("name", CALLS)
def test_nobody_speaks_without_a_token(acme, name):
    row = propose("pay", agent="owner")
    method, params = CALLS[name](row, 1)

    assert say("assent_never-issued", method, params).status_code == 401
