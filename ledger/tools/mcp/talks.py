"""A short talk with an MCP server: which revision it speaks, what tools it has, one call.

What is not the call itself has no effect, so that until the call is sent every failure proves that
nothing happened.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import count
from typing import Any, Protocol

import httpx

from ledger.tools.mcp import definitions, wire
from ledger.tools.mcp.wire import Json, NothingSent, NotProved, NotSpoken, ServerError

MOST_PAGES = 50
LARGEST_LIST = wire.LARGEST  # characters of all pages together
POLL_FIRST_S, POLL_LONGEST_S = 0.2, 30.0
FAILURES = (NotProved, NothingSent, ServerError, httpx.HTTPError, TimeoutError, OSError)


class Connection(Protocol):
    async def ask(self, message: Json, headers: Mapping[str, str], /) -> Json: ...
    async def tell(self, message: Json, headers: Mapping[str, str], /) -> None: ...
    async def bye(self, headers: Mapping[str, str], /) -> None: ...


class Talk:
    """One talk. ``revision`` is the one that the server speaks."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._numbers = connection, count(1)
        self.revision = wire.MODERN
        # From here on a failure proves nothing.
        self.has_called = False

    @property
    def is_modern(self) -> bool:
        return self.revision == wire.MODERN

    async def begin(self, revision: str) -> None:
        """``revision`` is the one that it last spoke, or empty. Raises ``FAILURES``."""
        if revision == wire.MODERN:
            return
        if not revision:
            try:
                return await self.discover()
            except (ServerError, NotSpoken):
                pass
        await self.greet()

    async def discover(self) -> None:
        """Raises ``NotSpoken`` if it does not speak the revision without sessions; ``FAILURES``."""
        versions = (await self.ask("server/discover", {})).get("supportedVersions")
        if not isinstance(versions, list) or wire.MODERN not in versions:
            raise NotSpoken(f"It does not speak revision {wire.MODERN} of MCP.")

    async def greet(self) -> None:
        """Begin a session, as revisions of before have it. Raises ``FAILURES``."""
        self.revision = wire.SESSIONS[0]
        hello = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": wire.CLIENT}
        revision = (await self.ask("initialize", hello)).get("protocolVersion")
        if revision not in wire.SESSIONS:
            raise NotProved(f"It speaks revision {str(revision)!r:.40} of MCP, which we do not.")
        self.revision = str(revision)
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._connection.tell(message, self._headers("notifications/initialized"))

    async def check(self) -> None:
        """Find out whether the server still answers. Raises ``FAILURES``."""
        try:
            await self.ask("server/discover" if self.is_modern else "ping", {})
        except ServerError:
            return  # an answer as well

    async def ask(self, method: str, params: Json, name: str = "") -> Json:
        """The result of one request. Raises ``FAILURES``."""
        sent = wire.with_envelope(params) if self.is_modern else params
        message = wire.request(next(self._numbers), method, sent)
        return await self._connection.ask(message, self._headers(method, name))

    def _headers(self, method: str, name: str = "") -> dict[str, str]:
        if not self.is_modern:
            return {} if method == "initialize" else {"MCP-Protocol-Version": self.revision}
        headers = {"MCP-Protocol-Version": wire.MODERN, "Mcp-Method": method}
        return {**headers, "Mcp-Name": name} if name else headers

    async def end(self) -> None:
        if not self.is_modern:
            await self._connection.bye(self._headers("end"))

    async def tools(self) -> dict[str, Json]:
        """Members that are pinned of each tool, by name. Raises ``FAILURES``."""
        listed: list[Any] = []
        cursors: set[str] = set()
        size = 0
        params: Json = {}
        while True:
            page = await self.ask("tools/list", params)
            listed += page["tools"] if isinstance(page.get("tools"), list) else []
            size += len(json.dumps(page))
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return definitions.definitions_in(listed)
            if cursor in cursors or len(cursors) == MOST_PAGES or size > LARGEST_LIST:
                raise NotProved("Its list of tools does not end.")
            cursors.add(cursor)
            params = {"cursor": cursor}

    async def call(self, name: str, arguments: Json, meta: Json) -> Json:
        """The result of ``tools/call``, once there is one. Raises ``FAILURES``."""
        params: Json = {"name": name, "arguments": arguments, "_meta": meta}
        self.has_called = True
        result = await self.ask("tools/call", params, name)
        kind = result.get("resultType", "complete")
        if kind == "task":
            result = await self._finished(result)
        elif kind != "complete":
            raise NotProved(
                "It asks for input in the middle of the call, which nobody gives."
                if kind == "input_required"
                else f"Its answer is of the kind {str(kind)!r:.40}, which we do not know."
            )
        return result

    async def _finished(self, task: Json) -> Json:
        task_id = task.get("taskId")
        if not isinstance(task_id, str) or not task_id.isascii() or not task_id.isprintable():
            raise NotProved("It answered with a task that has no usable id.")
        while task.get("status") == "working":
            await asyncio.sleep(_pause_in(task))
            try:
                task = await self.ask("tasks/get", {"taskId": task_id}, task_id)
            except (ServerError, NothingSent) as failure:  # it says nothing of the call
                raise NotProved(f"Of its task {task_id:.100} it says: {failure}") from failure
        if task.get("status") == "completed" and isinstance(result := task.get("result"), dict):
            return result
        raise NotProved(f"Its task {task_id:.100} is {str(task.get('status'))!r:.40}.")


def _pause_in(task: Json) -> float:
    wished = task.get("pollIntervalMs")
    if not isinstance(wished, int | float):
        wished = 1000
    return min(max(wished, POLL_FIRST_S * 1000), POLL_LONGEST_S * 1000) / 1000
