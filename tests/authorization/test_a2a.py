"""Every A2A method, by every agent with every scope: what each gets is what ``table.csv`` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from a2a.server.request_handlers import RequestHandler

from a2a import tasks
from a2a.models import PushConfig, Task
from ledger.models import Scope
from tests.a2a.test_protocol import Peer
from tests.authorization import table
from tests.authorization.scene import AGENTS, COLUMNS, RECORDS, Scene

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def _message(**members: Any) -> dict[str, Any]:
    parts = [{"data": {"skill": "consolidate", "input": {}}}]
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": parts, **members}
    return {"message": message, "configuration": {"returnImmediately": True}}


# A public address, and no name that would have to be resolved.
PUSH = {"id": "mine", "url": "https://93.184.216.34/push"}
# Name in the table → method of the protocol, and its parameters for a task.
CALLS: dict[str, tuple[str, Callable[[Task], dict[str, Any]]]] = {
    "SendMessage": ("SendMessage", lambda task: _message()),
    "SendMessage to a task": ("SendMessage", lambda task: _message(taskId=str(task.pk))),
    "GetTask": ("GetTask", lambda task: {"id": str(task.pk)}),
    "ListTasks": ("ListTasks", lambda task: {}),
    "CancelTask": ("CancelTask", lambda task: {"id": str(task.pk)}),
    "CreateTaskPushNotificationConfig": (
        "CreateTaskPushNotificationConfig",
        lambda task: {"taskId": str(task.pk), **PUSH},
    ),
    "GetTaskPushNotificationConfig": (
        "GetTaskPushNotificationConfig",
        lambda task: {"taskId": str(task.pk), "id": "push"},
    ),
    "ListTaskPushNotificationConfigs": (
        "ListTaskPushNotificationConfigs",
        lambda task: {"taskId": str(task.pk)},
    ),
    "DeleteTaskPushNotificationConfig": (
        "DeleteTaskPushNotificationConfig",
        lambda task: {"taskId": str(task.pk), "id": "push"},
    ),
    "GetExtendedAgentCard": ("GetExtendedAgentCard", lambda task: {}),
}
# Streams go through the same checks as SendMessage and GetTask (tests/a2a/test_protocol.py).
STREAMS = {"SendStreamingMessage", "SubscribeToTask"}


def test_every_method_of_the_protocol_is_in_the_table():
    methods = {name for name in dir(RequestHandler) if name.startswith("on_")}
    assert len(methods) == len({method for method, _ in CALLS.values()} | STREAMS)


def test_every_agent_gets_what_the_table_says(acme):
    scene = Scene()
    seen = {
        f"A2A {name}": {"anonymous": "401", **{who: cell(scene, name, who) for who in AGENTS}}
        for name in CALLS
    }
    if RECORDS:
        table.write(table.read() | seen, COLUMNS)
        return
    rows = {name: row for name, row in table.read().items() if name.startswith("A2A ")}

    assert {name: {who: row[who] for who in seen[name]} for name, row in rows.items()} == seen


def cell(scene: Scene, name: str, who: str) -> str:
    statuses = {}
    for scope in [table.NO_SCOPE, *Scope.values]:
        peer = Peer(scene.agents[who], *([] if scope == table.NO_SCOPE else [scope]))
        statuses[scope] = outcome(peer, name, scene)
    return table.cell_of(statuses)


def outcome(peer: Peer, name: str, scene: Scene) -> str:
    """200, or the code of the refusal."""
    method, params = CALLS[name]
    task = scene.fresh_task()
    PushConfig.objects.create(task=task, config_id="push", url="https://example.com/push")
    answer = peer.rpc(method, params(task))
    if not Task.objects.get(pk=task.pk).is_final:
        tasks.cancel(task.pk, by=scene.agents["owner"].principal, via="a2a")
    if "error" in answer:
        return str(answer["error"]["code"])
    result = answer["result"] or {}
    state = result.get("task", {}).get("status", {}).get("state", "")
    return "rejected" if state == "TASK_STATE_REJECTED" else "200"


@pytest.mark.parametrize("method", sorted({method for method, _ in CALLS.values()} | STREAMS))
def test_nobody_speaks_without_a_token(acme, method):
    class Stranger(Peer):
        def __init__(self) -> None:
            self.token = "assent_never-issued"

    assert (
        Stranger()
        .http("POST", "/a2a/v1", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
        .status_code
        == 401
    )
