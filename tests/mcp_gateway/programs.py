"""A program that speaks MCP on its standard input, rightly or wrongly: python programs.py <how>."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

HOW = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
ARGUMENTS = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL = {"name": "write", "description": "Writes.", "inputSchema": ARGUMENTS}


def say(body: Any) -> None:
    sys.stdout.write(json.dumps(body) + "\n")
    sys.stdout.flush()


def answer(message: dict[str, Any], result: Any) -> None:
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})


def call(message: dict[str, Any]) -> None:
    if FILE is not None:
        with FILE.open("a") as file:
            file.write(f"{message['params']['_meta']['assent/operation-key']}\n")
    match HOW:
        case "dies":
            sys.exit("Out of paper.")
        case "silent":
            return
        case "huge":
            sys.stdout.write("x" * 3_000_000)
            sys.stdout.flush()
        case "asks":
            say({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}})
            refusal = json.loads(sys.stdin.readline())
            answer(message, {"structuredContent": {"id": str(refusal["error"]["code"])}})
        case "process":
            answer(message, {"structuredContent": {"id": str(os.getpid())}})
        case "refuses" if message["params"]["arguments"].get("text") == "no":
            error = {"code": -32602, "message": f"Process {os.getpid()} refuses."}
            say({"jsonrpc": "2.0", "id": message["id"], "error": error})
        case "refuses":
            answer(message, {"structuredContent": {"id": str(os.getpid())}})
        case "environment":
            answer(message, {"structuredContent": {"id": ",".join(sorted(os.environ))}})
        case _:
            answer(message, {"structuredContent": {"id": "w_1"}})


if HOW == "broken":
    sys.exit("x" * 5000 + "\x1b[2J Good-bye.")
was_greeted = False
for line in sys.stdin:
    message = json.loads(line)
    was_greeted |= message["method"] == "initialize"
    match message["method"]:
        case _ if HOW == "formal" and not was_greeted:
            error = {"code": -32600, "message": "Nobody greeted me."}
            say({"jsonrpc": "2.0", "id": message["id"], "error": error})
        case "server/discover" if HOW == "old":
            pass  # servers from before never answer
        case "server/discover" if HOW == "strict":
            sys.exit("Nobody greeted me.")
        case "initialize" if HOW == "modern":
            sys.exit("The initialize handshake is not accepted.")
        case "server/discover":
            answer(message, {"supportedVersions": ["2026-07-28"]})
        case "ping":
            say({"jsonrpc": "2.0", "method": "ping", "id": "are you there?"})
            assert json.loads(sys.stdin.readline())["result"] == {}
            answer(message, {})
        case "initialize":
            answer(message, {"protocolVersion": "2025-06-18", "capabilities": {}})
        case "tools/list":
            sys.stdout.write("a line that is no JSON\n")
            answer(message, {"tools": [TOOL]})
        case "tools/call":
            call(message)
