"""An agent that speaks MCP: calls one tool of Assent, waits for people, and prints the result.

    python examples/mcp_client.py once --token-file .assent/demo_bookkeeper_token
    python examples/mcp_client.py forever --token-file .assent/demo_bookkeeper_token

It refunds invoices with ``refund_invoice``, which runs elsewhere (examples/http_tool). The address
of Assent is in ASSENT_URL, the token in ASSENT_TOKEN. Any client of MCP does the same; this one is
plain HTTP, so that one can see what goes over the wire (docs/mcp.md).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
import uuid
from itertools import count
from pathlib import Path
from typing import Any

import httpx

REVISION = "2026-07-28"
BETWEEN_CALLS_S = (75.0, 150.0)
PATIENCE_S = 60.0  # for an Assent that is starting, or away for a moment
STORIES = (
    "The customer has sent the goods back.",
    "It was billed twice in the same month.",
    "The rate of the old contract was applied.",
)


class Assent:
    """The endpoint ``/mcp``: no session, so that every request stands for itself."""

    def __init__(self, url: str, token: str) -> None:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
        }
        timeout = httpx.Timeout(75, connect=5)
        self.http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)
        self.ids = count(1)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool's result, as ``structuredContent``. A call that is repeated is one call."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "assent/idempotency-key": str(uuid.uuid4()),
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                told: dict[str, Any] = self._ask("tools/call", tool, params)["structuredContent"]
                return told
            except (httpx.TransportError, httpx.HTTPStatusError):
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(2)

    def _ask(self, method: str, name: str, params: dict[str, Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}
        answer = self.http.post("/mcp", json=body, headers={"Mcp-Method": method, "Mcp-Name": name})
        answer.raise_for_status()
        message = _last_message(answer)
        if "error" in message:
            raise SystemExit(f"Assent refused the call: {message['error']['message']}")
        result: dict[str, Any] = message["result"]
        return result


def _last_message(answer: httpx.Response) -> dict[str, Any]:
    """The answer comes as JSON, or as the last event of a stream."""
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line[5:] for line in text.splitlines() if line.startswith("data:")][-1]
    message: dict[str, Any] = json.loads(text)
    return message


def refund(assent: Assent, dice: random.Random) -> dict[str, Any]:
    """Call the tool once, and wait for as long as people take."""
    invoice, amount = str(dice.randint(100_000, 999_999)), f"{dice.randint(1000, 29_999) / 100:.2f}"
    say(f"→ refund_invoice: {amount} EUR for invoice {invoice}")
    told = assent.call(
        "refund_invoice", invoice=invoice, amount=amount, assent_reason=dice.choice(STORIES)
    )
    has_said = ""
    while not told.get("is_final", True):
        if told["sentence"] != has_said:
            has_said = told["sentence"]
            say(f"· {has_said} {told['url']}")
        told = followed(assent, told)
    for change in told.get("changed", ()):
        say(f"! people changed {change['path']}: {change['from']} → {change['to']}")
    say(
        f"✓ receipt {told['receipt']}" if told["status"] == "succeeded" else f"✗ {told['sentence']}"
    )
    return told


def followed(assent: Assent, told: dict[str, Any]) -> dict[str, Any]:
    """What comes next: of a question that whoever signs off has, the answer is awaited."""
    which = {"transaction_id": told["transaction_id"]}
    if told.get("question"):
        say(f"? {told['question']['text']}")
        return assent.call("assent_answer", text="What I know of it is in the reason.", **which)
    return assent.call("assent_wait", seconds=50, **which)


def say(text: str) -> None:
    print("".join(letter if letter.isprintable() else " " for letter in text), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="An agent that refunds invoices over MCP.")
    parser.add_argument("how_often", choices=["once", "forever"])
    parser.add_argument("--token-file", type=Path)
    options = parser.parse_args()
    token = options.token_file.read_text() if options.token_file else os.environ["ASSENT_TOKEN"]
    assent = Assent(os.environ.get("ASSENT_URL", "http://localhost:8000"), token.strip())
    dice = random.Random()
    refund(assent, dice)
    while options.how_often == "forever":
        time.sleep(dice.uniform(*BETWEEN_CALLS_S))
        refund(assent, dice)


if __name__ == "__main__":
    main()
