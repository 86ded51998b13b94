"""JSON-RPC by hand, to the whole live process in this one."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import httpx
from django.db import connections

from tests import asgi

MODERN = "2026-07-28"
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
_ids = count(1)


def body_of(method: str, params: dict[str, Any], *, modern: bool, tasks: bool = False) -> Any:
    if modern:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": TASKS if tasks else {},
        }
        params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}


def headers_of(body: Any, *, modern: bool) -> dict[str, str]:
    headers = {"Accept": "application/json, text/event-stream"}
    if not modern:
        return {**headers, "MCP-Protocol-Version": "2025-11-25"}
    headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": body["method"]}
    name = body["params"].get("name") or body["params"].get("taskId")
    return headers | ({"Mcp-Name": name} if name else {})


async def said(
    token: str,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    modern: bool = True,
    tasks: bool = False,
    **headers: str,
) -> httpx.Response:
    body = body_of(method, params or {}, modern=modern, tasks=tasks)
    return await asgi.request(
        "POST", "/mcp", token, json=body, headers={**headers_of(body, modern=modern), **headers}
    )


def say(*args: Any, **options: Any) -> httpx.Response:
    try:
        return asyncio.run(said(*args, **options))
    finally:
        connections.close_all()


def message_in(answer: httpx.Response) -> dict[str, Any]:
    """The last message, of a stream or of JSON."""
    return messages_in(answer)[-1]


def messages_in(answer: httpx.Response) -> list[dict[str, Any]]:
    import json

    if answer.headers["content-type"].startswith("text/event-stream"):
        lines = answer.text.splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return [answer.json()]


def result_of(answer: httpx.Response) -> dict[str, Any]:
    message = message_in(answer)
    assert "result" in message, message
    found: dict[str, Any] = message["result"]
    return found


def call(token: str, name: str, arguments: Any, *, hold_s: float = 0, **options: Any) -> Any:
    """The result of a tool, which is held for so long."""
    meta = {"assent/hold-s": hold_s, **options.pop("meta", {})}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    return result_of(say(token, "tools/call", params, **options))
