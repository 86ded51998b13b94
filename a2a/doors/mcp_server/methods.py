"""The methods of the protocol: from a message to its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from a2a.doors.mcp_server import calls, catalogue
from a2a.doors.mcp_server.requests import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    OLDER,
    SERVER_KEY,
    TASKS,
    VERSIONS,
    Fault,
    Incoming,
    Json,
)
from a2a.doors.mcp_server.statuses import Standing, refusal_of
from a2a.doors.mcp_server.waiting import Client, until_final
from a2a.protocol.threads import patient, quick
from ledger.errors import InProgress, LedgerError, NotAllowed, NotFound

Tell = Callable[[Standing], Awaitable[None]]
R = TypeVar("R")
SERVER = {"name": "assent", "title": "Assent", "version": "1"}
LIST_TTL_MS = 30_000
# How long a call that needs nobody's sign-off is waited for before it becomes a task.
AT_ONCE_S = 2.0
# How long a client that polls a task too often waits for its answer.
SLOWED_S = 2.0
# A client's own limit, in ``_meta``: seconds for which a call may be held.
HOLD_KEY = "assent/hold-s"


async def answer(message: Incoming, client: Client, tell: Tell) -> Json:
    """The result of a request. Raises ``Fault``, and what the database raises."""
    method = METHODS.get(message.method)
    if method is None or (message.method in ONLY_OLDER and message.is_modern):
        raise Fault(METHOD_NOT_FOUND, f"There is no method {message.method!r:.80} here.")
    result = await method(message, client, tell)
    if message.is_modern:
        result = {"resultType": "complete", **result, "_meta": {SERVER_KEY: SERVER}}
    return result


async def _initialize(message: Incoming, client: Client, tell: Tell) -> Json:
    wanted = message.params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in OLDER else OLDER[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": SERVER,
        "instructions": catalogue.INSTRUCTIONS,
    }


async def _discover(message: Incoming, client: Client, tell: Tell) -> Json:
    return {
        "supportedVersions": list(VERSIONS),
        "capabilities": {"tools": {"listChanged": False}, "extensions": {TASKS: {}}},
        "serverInfo": SERVER,
        "instructions": catalogue.INSTRUCTIONS,
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "private",
    }


async def _ping(message: Incoming, client: Client, tell: Tell) -> Json:
    return {}


async def _list_tools(message: Incoming, client: Client, tell: Tell) -> Json:
    tools = await quick.run(client.name, catalogue.tools_for, client.caller)
    cached = {"ttlMs": LIST_TTL_MS, "cacheScope": "private"} if message.is_modern else {}
    return {"tools": tools, **cached}


async def _call_tool(message: Incoming, client: Client, tell: Tell) -> Json:
    name, arguments = message.params.get("name"), message.params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Fault(INVALID_PARAMS, "A call has a name, and arguments that are an object.")
    try:
        hold_s = _hold_of(name, arguments, message.meta)
        called = await _called(client, name, arguments, message.meta)
    except LedgerError as refusal:
        if client.caller.resource and "scope" in refusal.extra:
            raise  # its person may sign in once more, for all scopes
        return refusal_of(refusal)
    if not isinstance(called, Standing):
        return called
    wants_task = message.takes_tasks and name not in catalogue.OWN - {catalogue.ASK}
    # Many that wait, each with what it had sent, would fill the memory.
    arguments = {}
    message.params.clear()
    if wants_task:
        standing = await until_final(client, called, AT_ONCE_S if called.needs_nobody else 0)
        if not standing.is_final:
            return {"resultType": "task", **standing.as_task()}
        return standing.as_result()
    if name not in {catalogue.ANSWER, catalogue.CANCEL}:
        called = await until_final(client, called, hold_s, tell)
    return called.as_result()


async def _called(client: Client, name: str, arguments: Json, meta: Json) -> calls.Called:
    """The result of a call. A request repeated while the first still plans waits for that."""
    do = partial(calls.call, client.caller, name, arguments, meta)
    deadline = time.monotonic() + catalogue.LONGEST_HOLD_S / 2
    while True:
        try:
            return await patient.run(client.name, do)
        except InProgress as delay:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(delay.retry_after_s)


def _hold_of(name: str, arguments: Json, meta: Json) -> float:
    """Seconds for which this call may be held. Raises ``InvalidRequest``."""
    wanted: Any = meta.get(HOLD_KEY)
    if name == catalogue.WAIT:
        wanted = arguments.get("seconds", wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return float(catalogue.LONGEST_HOLD_S)
    return float(min(max(wanted, 0), catalogue.LONGEST_HOLD_S))


async def _get_task(message: Incoming, client: Client, tell: Tell) -> Json:
    standing, is_too_fast = await _of_task(calls.poll, message, client)
    if is_too_fast:
        standing = await until_final(client, standing, SLOWED_S)
    result = standing.as_task()
    if result["status"] == "completed":
        result["result"] = {"resultType": "complete", **standing.as_result()}
    return result


async def _cancel_task(message: Incoming, client: Client, tell: Tell) -> Json:
    await _of_task(calls.withdraw_if_possible, message, client)
    return {}


async def _update_task(message: Incoming, client: Client, tell: Tell) -> Json:
    """Ignore what a client says to a task: people decide on the desk."""
    await _of_task(calls.poll, message, client)
    return {}


async def _of_task(work: Callable[[Any, Any], R], message: Incoming, client: Client) -> R:
    if not message.takes_tasks:
        data: Json = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise Fault(MISSING_CAPABILITY, f"The request does not declare {TASKS}.", data)
    try:
        return await quick.run(client.name, work, client.caller, message.params.get("taskId"))
    except NotFound:
        raise Fault(INVALID_PARAMS, "There is no such task.") from None
    except NotAllowed as refusal:
        raise Fault(INVALID_PARAMS, f"{refusal.detail} {refusal.hint}") from None


ONLY_OLDER = frozenset({"initialize", "ping"})
METHODS: dict[str, Callable[[Incoming, Client, Tell], Awaitable[Json]]] = {
    "initialize": _initialize,
    "ping": _ping,
    "server/discover": _discover,
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "tasks/get": _get_task,
    "tasks/cancel": _cancel_task,
    "tasks/update": _update_task,
}
