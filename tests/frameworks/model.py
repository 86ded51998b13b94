"""A model that follows a script, behind the interfaces of two makers of models, on loopback.

It calls ``refund_customer`` once, waits and answers as it is told to, and then says, word for word,
what it was told in the end. What these interfaces do not have is answered 404.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUND = {"payment_id": "pay_1042", "amount": "48.20", "reason": "damaged"}
ANSWER = "The photos are in ticket 7."
Step = tuple[str, dict[str, Any]] | str
_numbers = itertools.count(1)


def next_step(tools: list[str], results: list[str]) -> Step:
    """A call, by name and arguments, or what is said in the end."""

    def named(end: str) -> str:
        return next(name for name in tools if name.endswith(end))

    if not results:
        return named("refund_customer"), REFUND
    try:  # Agent Framework puts "Error: Function failed. Exception: " before it
        told = json.loads(results[-1].removeprefix("Error: Function failed. Exception: "))
    except ValueError:
        return results[-1]
    if told["status"] != "pending":
        return json.dumps(told)
    this = {"transaction_id": told["transaction_id"]}
    if told.get("question"):
        return named("assent_answer"), this | {"text": ANSWER}
    return named("assent_wait"), this


# --- the dialects: what is asked, and how it is answered ------------------------------------------


def chat_completions(asked: dict[str, Any]) -> Any:
    tools = [one["function"]["name"] for one in asked["tools"]]
    results = [one["content"] for one in asked["messages"] if one["role"] == "tool"]
    step = next_step(tools, results)
    message: dict[str, Any] = {"role": "assistant", "content": step}
    if not isinstance(step, str):
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        call = {"id": f"call_{next(_numbers)}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    ended = "stop" if isinstance(step, str) else "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": ended}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "c", "object": "chat.completion", "created": 1, "usage": usage} | {
        "model": asked["model"],
        "choices": [choice],
    }


def responses(asked: dict[str, Any]) -> Any:
    tools = [one["name"] for one in asked["tools"] if one["type"] == "function"]
    results = [text_of(one["output"]) for one in asked["input"] if "output" in one]
    step = next_step(tools, results)
    number = next(_numbers)
    item: dict[str, Any] = {"id": f"item_{number}", "status": "completed"}
    if isinstance(step, str):
        said = {"type": "output_text", "text": step, "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [said]}
    else:
        call = {"call_id": f"call_{number}", "name": step[0], "arguments": json.dumps(step[1])}
        item |= {"type": "function_call", **call}
    return {"id": f"resp_{number}", "object": "response", "created_at": 1, "output": [item]} | {
        "model": asked["model"],
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def messages(asked: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, and the number that it is about."""
    if not asked.get("stream"):
        raise LookupError("only streams")
    blocks = [
        block
        for message in asked["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    results = [text_of(one["content"]) for one in blocks if one["type"] == "tool_result"]
    tools = [one["name"] for one in asked.get("tools", [])]
    step = next_step(tools, results)
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun = {"id": f"msg_{next(_numbers)}", "type": "message", "role": "assistant", "content": []}
    yield (
        "message_start",
        {"message": begun | {"model": asked["model"], "usage": usage, "stop_reason": None}},
    )
    if isinstance(step, str):
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step}
    else:
        call_id = f"toolu_{next(_numbers)}"
        block = {"type": "tool_use", "id": call_id, "name": step[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    ended = "end_turn" if isinstance(step, str) else "tool_use"
    yield (
        "message_delta",
        {"delta": {"stop_reason": ended, "stop_sequence": None}, "usage": usage},
    )
    yield "message_stop", {}


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(one.get("text", "") for one in content)


class _Interface(BaseHTTPRequestHandler):
    dialects: dict[str, Callable[[dict[str, Any]], Any]] = {
        "/v1/chat/completions": chat_completions,
        "/v1/responses": responses,
    }

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        path = self.path.partition("?")[0]
        key = self.headers.get("Authorization") or self.headers.get("x-api-key")
        if not key:
            self._say(401, "application/json", b'{"error": {"message": "no key"}}')
        elif path == "/v1/messages":
            lines = [
                f"event: {kind}\ndata: {json.dumps({'type': kind, **event})}\n\n"
                for kind, event in messages(asked)
            ]
            self._say(200, "text/event-stream", "".join(lines).encode())
        elif path in self.dialects and not asked.get("stream"):
            answer = self.dialects[path](asked)
            self._say(200, "application/json", json.dumps(answer).encode())
        else:
            self._say(404, "application/json", b'{"error": {"message": "no such address"}}')

    def _say(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *said: Any) -> None:
        """Nothing: a test says what went wrong."""


@contextmanager
def a_model() -> Iterator[str]:
    """Its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Interface) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
