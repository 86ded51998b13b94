"""An MCP server of the unmodified SDK, for tests: it keeps what it did in a file.

    python server.py <port or "stdio"> <file> <2026-07-28|legacy>

``legacy`` refuses the revision without sessions, as servers from before it do. With ``DIES`` in the
environment it ends after its first effect, before it answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

PORT, FILE, ERA = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
server = MCPServer("invoices")


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_invoice(invoice: str) -> dict[str, Any]:
    """Reads an invoice."""
    return {"invoice": invoice, "refunds": len(kept())}


@server.tool()
def refund_invoice(invoice: str, amount: float, context: Context, note: str = "") -> dict[str, Any]:
    """Refunds an invoice."""
    meta = dict(context.request_context.meta or {})
    headers = dict(context.headers or {})
    did = {"id": f"re_{len(kept()) + 1}", "invoice": invoice, "amount": amount, "note": note}
    done = {**did, "key": meta.get("assent/operation-key"), "headers": headers}
    with FILE.open("a") as file:
        file.write(json.dumps(done) + "\n")
    if "DIES" in os.environ:
        os._exit(9)
    return did


@server.tool()
def find_refund(key: str) -> dict[str, Any]:
    """Finds a refund by the key of its operation."""
    found = [done for done in kept() if done["key"] == key]
    return {"id": found[0]["id"] if found else None}


@server.tool()
def fail(invoice: str) -> str:
    """Fails."""
    raise ValueError(f"no {invoice}")


class Legacy:
    """Refuses what a server from before 2026-07-28 does not know."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        version = dict(scope.get("headers", ())).get(b"mcp-protocol-version")
        if version == b"2026-07-28":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Unsupported protocol version"})
        else:
            await self.app(scope, receive, send)


if PORT == "stdio":
    server.run("stdio")
else:
    app: Any = server.streamable_http_app()
    uvicorn.run(Legacy(app) if ERA == "legacy" else app, port=int(PORT), log_level="warning")
