"""Whatever is sent to an address, by whomever: it is answered, and never with a fault of ours.

The requests are those of the table of who may call what, each with one thing in it that nothing can
read, store or mean.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from copy import copy, deepcopy
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.db import connections
from django.db.transaction import atomic, set_rollback
from django.test import Client

from ledger.foundation import doorbell
from ledger.limits import rates
from ledger.models import AgentToken, Scope
from tests.asgi import request
from tests.authorization.operations import address_of, all_operations, request_of
from tests.authorization.scene import Scene
from tests.authorization.test_a2a import CALLS as A2A_CALLS
from tests.authorization.test_mcp import CALLS as MCP_CALLS
from tests.authorization.test_table import PARTS
from tests.mcp.wire import MODERN, body_of

MULTIPART, FORM, JSON = (
    "multipart/form-data",
    "application/x-www-form-urlencoded",
    "application/json",
)
LARGE = {"the desk", "the ledger admin"}
TEXTS = ["\0", "a\0b", "9" * 40, "-1", "\U0001f4a5", "x" * 3000, "[" * 5000]
VALUES = [*TEXTS, "\ud800", None, True, [], {}, [[]], 10**30, -1, 1.5, ["\0"], {"\ud800": 1}]
QUERIES = [
    "q",
    "since",
    "until",
    "state",
    "tool",
    "agent",
    "page",
    "cursor",
    "limit",
    "p",
    "o",
    "id",
]
# Requests with a type and a body that no address can read.
BODIES: list[tuple[str, bytes]] = [
    (MULTIPART, b"token="),
    (f"{MULTIPART}; boundary=", b"--"),
    (f"{MULTIPART}; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a\0"\r\n\r\nb'),
    (
        f"{MULTIPART}; boundary=x",
        b"".join(b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n" for _ in range(3000)),
    ),
    (FORM, b"a=1&" * 3000),
    (FORM, b"a=%00"),
    (JSON, b"{"),
    (JSON, b"\xff\xfe"),
    (JSON, b"[" * 100_000),
    (JSON, b"null"),
    (JSON, b'"\\u0000"'),
    (JSON, b'{"\\ud800": "\\u0000"}'),
    (JSON, b"a" * 300_000),
    (FORM, b"a=" + b"b" * 300_000),
]


def bodies_for(operation: str, scene: Scene) -> Iterator[dict[str, Any]]:
    """The bodies of nobody, and the one that would succeed with one value exchanged."""
    for content_type, body in BODIES:
        yield {"data": body, "content_type": content_type}
    usual = request_of(operation, scene)
    if usual.get("content_type") == JSON:
        for body in exchanged(json.loads(usual["data"])):
            yield {**usual, "data": json.dumps(body)}
    else:
        for name, value in usual.get("data", {}).items():
            for text in TEXTS:
                form = urlencode({**usual["data"], name: text})
                yield {"data": form, "content_type": FORM}
            yield {"data": urlencode([(name, value)] * 2 + [("\0", "")]), "content_type": FORM}


def exchanged(value: Any) -> Iterator[Any]:
    """The JSON value with each of its parts as each of ``VALUES``."""
    yield from deepcopy(VALUES)
    if isinstance(value, dict):
        for name, inner in value.items():
            for other in exchanged(inner):
                yield {**value, name: other}


def addresses_for(operation: str, scene: Scene) -> Iterator[str]:
    address = address_of(operation, scene)
    for text in ("%00", "%ED%A0%80", "9" * 40, "-1", "%2e%2e"):
        yield re.sub(r"\{\w+\}", text, operation.partition(" ")[2])
    for text in ("%00", "%ED%A0%80", "9" * 40, "-1", quote("\u202e" * 300)):
        query = "&".join(f"{name}={text}" for name in QUERIES)
        yield f"{address.partition('?')[0]}?{query}"


def answered(client: Client, method: str, address: str, **request: Any) -> int:
    """The status; whatever was written is taken back."""
    doorbell.redis().flushdb()
    rates.forget()
    cookies = copy(client.cookies)
    with atomic():
        answer: Any = client.generic(method, address, **request)
        if hasattr(answer, "streaming_content"):
            b"".join(answer.streaming_content)
        set_rollback(True)
    client.cookies = cookies
    return int(answer.status_code)


def client_for(operation: str, scene: Scene) -> Client:
    """One that may do as much as anybody."""
    if " /api/" in operation or " /humanlayer/" in operation:
        _, token = AgentToken.issue(scene.agents["owner"], scopes=list(Scope))
        header = {"Authorization": f"Bearer {token}"}
        return Client(raise_request_exception=False, headers=header)
    if " /admin/" in operation:
        return scene.person("superuser")
    return scene.person("admin")


@pytest.fixture
def scene(db: None) -> Scene:
    return Scene()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.large] * (part in LARGE)) for part in PARTS]
)
def test_no_request_to_any_address_ends_in_a_fault_of_ours(part: str, scene: Scene) -> None:
    faults = set()
    for operation in (name for name in all_operations() if PARTS[part](name)):
        method, client = operation.partition(" ")[0], client_for(operation, scene)
        for address in addresses_for(operation, scene):
            if answered(client, method, address) >= 500:
                faults.add(f"{method} {address[:200]}")
        for body in bodies_for(operation, scene) if method == "POST" else ():
            if answered(client, method, address_of(operation, scene), **body) >= 500:
                faults.add(f"{operation} {str(body)[:200]}")

    assert sorted(faults) == []


# --- the interfaces that are no views of Django -------------------------------------------------

CHARSETS = [(f"{FORM}; charset=rot13", b"a=%00"), (f"{JSON}; charset=utf-7", b'"+2AA-"')]
A2A = ["/a2a/v1", "/a2a/v0.3", "/a2a/skills/consolidate/v1", "/a2a/rest/message:send"]
READS = ["/a2a/rest/tasks/{}", "/a2a/rest/tasks?contextId={}", "/a2a/rest/tasks?pageToken={}"]
READS += ["/a2a/rest/tasks?status={}&pageSize={}", "/a2a/{}/v1", "/.well-known/{}", "/mcp?a={}"]


def said_over_a2a(scene: Scene) -> Iterator[dict[str, Any]]:
    """JSON-RPC with one part of a call exchanged. Nothing of it waits for an end of its task."""
    for method, params_of in A2A_CALLS.values():
        usual = params_of(scene.task)
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": usual}
        for member in call:
            yield from ({**call, member: value} for value in VALUES)
        inner = "message" if "message" in usual else ""
        for other in exchanged(usual[inner] if inner else usual):
            yield {**call, "params": {**usual, inner: other} if inner else other}


def said_over_mcp(scene: Scene) -> Iterator[dict[str, Any]]:
    for name, call_of in MCP_CALLS.items():
        method, params = call_of(scene.pending, 1)
        usual = body_of(method, params, modern=True, tasks=name.startswith("tasks/"))
        for member in usual:
            yield from ({**usual, member: value} for value in VALUES)
        for other in exchanged(params.get("arguments", {})):
            yield {**usual, "params": {**usual["params"], "arguments": other}}


def faults_of(token: str, requests: Iterator[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """Each request that ended in a fault of ours."""

    async def ask_all() -> list[str]:
        faults = []
        for method, path, content in requests:
            rates.forget()
            try:
                answer = await request(method, path, token, **content)
            except Exception as failure:
                faults.append(f"{method} {path} {str(content)[:200]}: {failure!r}")
                continue
            if answer.status_code >= 500 or "-32603" in answer.text:
                faults.append(f"{method} {path} {str(content)[:200]}: {answer.text[:300]}")
        return faults

    try:
        return asyncio.run(ask_all())
    finally:
        connections.close_all()


def spoken(scene: Scene) -> Iterator[tuple[str, str, dict[str, Any]]]:
    version = {"A2A-Version": "1.0"}
    for path in [*A2A, "/mcp", "/api/v1/tasks", "/sign-in/"]:
        for content_type, body in [*BODIES, *CHARSETS]:
            yield (
                "POST",
                path,
                {"content": body, "headers": {"Content-Type": content_type} | version},
            )
    for path in READS:
        for text in ("%00", "%ED%A0%80", "9" * 40, "-1", "%2e%2e"):
            yield "GET", path.replace("{}", text), {"headers": version}
    for body in said_over_a2a(scene):
        yield (
            "POST",
            "/a2a/v1",
            {"content": json.dumps(body), "headers": {"Content-Type": JSON} | version},
        )
    for body in said_over_mcp(scene):
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": JSON}
        headers |= {"MCP-Protocol-Version": MODERN}
        yield "POST", "/mcp", {"content": json.dumps(body), "headers": headers}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.django_db(transaction=True)
def test_no_message_of_an_agent_ends_in_a_fault_of_ours(acme: Any) -> None:
    scene = Scene()
    _, token = AgentToken.issue(scene.agents["owner"], scopes=list(Scope))

    assert faults_of(token, spoken(scene)) == []
