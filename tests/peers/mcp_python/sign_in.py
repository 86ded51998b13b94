"""Unmodified MCP clients that sign in, for tests: says what it sees, one JSON line each.

    python sign_in.py <address> <registered|dynamic|document|fastmcp> <client id>

It says where its person has to go, and is told on standard input where they were sent back to.
With FastMCP the person's browser is whatever ``BROWSER`` names.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

ADDRESS, KIND, CLIENT_ID = sys.argv[1:]
RETURN_TO = "http://localhost:7777/callback"
PAYMENT = {"reference": f"R-{KIND}", "amount": "12.00", "assent_reason": "Charged twice."}


def say(**seen: Any) -> None:
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()


class Storage:
    """What the client remembers; one that was registered knows who it is."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None
        if KIND == "registered":
            self.client = OAuthClientInformationFull(
                client_id=CLIENT_ID,
                redirect_uris=[RETURN_TO],
                token_endpoint_auth_method="none",
            )

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


async def show(url: str) -> None:
    say(seen="authorize", url=url)


async def returned() -> AuthorizationCodeResult:
    line = await asyncio.to_thread(sys.stdin.readline)
    query = {name: values[0] for name, values in parse_qs(urlsplit(line.strip()).query).items()}
    return AuthorizationCodeResult(
        code=query["code"], state=query.get("state"), iss=query.get("iss")
    )


async def with_the_sdk() -> None:
    metadata = OAuthClientMetadata(client_name="A client of the SDK", redirect_uris=[RETURN_TO])
    document = {"client_metadata_url": CLIENT_ID} if KIND == "document" else {}
    storage = Storage()
    auth = OAuthClientProvider(ADDRESS, metadata, storage, show, returned, **document)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        Client(streamable_http_client(ADDRESS, http_client=http)) as client,
    ):
        await propose(client)
        storage.tokens = auth.context.current_tokens
        auth.context.token_expiry_time = 1.0  # as if a quarter of an hour had passed
        tools = await client.list_tools()
        say(seen="refreshed", is_new=storage.tokens.access_token != first(auth), n=len(tools.tools))


def first(auth: Any) -> str:
    return str(auth.context.current_tokens.access_token)


async def with_fastmcp() -> None:
    from fastmcp import Client as FastClient
    from fastmcp.client.auth import OAuth

    async with FastClient(ADDRESS, auth=OAuth(client_name="FastMCP")) as client:
        called = await client.call_tool(
            "pay", PAYMENT, raise_on_error=False, meta={"assent/hold-s": 0}
        )
        body = called.structured_content
        say(seen=body["status"], id=body["transaction_id"])


async def propose(client: Any) -> None:
    meta: Any = {"assent/hold-s": 0}
    body = (await client.call_tool("pay", PAYMENT, meta=meta)).structured_content
    say(seen=body["status"], id=body["transaction_id"])


asyncio.run(with_fastmcp() if KIND == "fastmcp" else with_the_sdk())
