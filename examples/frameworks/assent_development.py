"""NO DESK: a play of one in the memory of this process, to try an agent before there is a server.

Nobody signs off, nothing is kept, and whoever runs the program decides:

    desk = DevelopmentDesk(
        {"refund_customer": DevelopmentTool(lambda payment_id: {"refunded": payment_id})},
        lambda desk, proposal: desk.approve(proposal.transaction_id),  # or refuse, expire, ask
    )
    assent = Assent(DevelopmentDesk.URL, "development", transport=desk)  # or AsyncAssent

No setting turns it on: a program has to build it. All of ``Assent`` works but ``ask``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import httpx

SAYS = "[development: no desk]"


@dataclass(frozen=True)
class DevelopmentTool:
    run: Callable[..., Any]
    description: str = ""
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    kind: str = "transactional"  # or "readonly"


@dataclass
class Proposal:
    """``answers``: what was answered to ``ask``."""

    transaction_id: str
    tool: str
    arguments: dict[str, Any]
    row: dict[str, Any]
    answers: list[str] = field(default_factory=list)
    revision: int = 1


class DevelopmentDesk(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """``decide`` is called for each proposal, and again once its question is answered."""

    URL = "http://development.invalid"  # nobody's, ever (RFC 2606)

    def __init__(
        self,
        tools: Mapping[str, DevelopmentTool],
        decide: Callable[[DevelopmentDesk, Proposal], Any] = lambda *_: None,
    ) -> None:
        print(f"{SAYS} Nobody signs off and nothing is kept: not for work.", file=sys.stderr)
        self._tools, self._decide = tools, decide
        self._kept: dict[str, Proposal] = {}  # by id, and by idempotency key
        self._change = threading.Condition()

    def approve(self, transaction_id: str) -> None:
        said = self._put(transaction_id, _outcome("in_doubt", "It is being carried out."))
        try:
            result = self._tools[said.tool].run(**said.arguments)
        except Exception as error:
            ended = _outcome("failed", "It failed.", ending_reason=f"{error!r}")
        else:
            receipt = {"receipt": f"development-{transaction_id}", "result": result}
            ended = _outcome("succeeded", "It was carried out.", **receipt)
        self._put(transaction_id, ended, "in_doubt")

    def refuse(self, transaction_id: str, reason: str) -> None:
        ended = _outcome("refused", f'It was refused: "{reason}".', ending_reason=reason)
        self._put(transaction_id, ended)

    def expire(self, transaction_id: str) -> None:
        self._put(transaction_id, _outcome("expired", "Nobody decided in time."))

    def ask(self, transaction_id: str, text: str) -> None:
        """As people do who want to know something of the agent before they decide."""
        self._put(transaction_id, {"question": {"text": text, "by": "development"}})

    def _put(self, key: str, changes: dict[str, Any], source: str = "pending") -> Proposal:
        with self._change:
            found = self._kept[key]
            if found.row["outcome"]["kind"] != source:
                raise ValueError(f"{key} does not wait for sign-off.")
            found.row |= {"question": None, **changes}
            found.revision += 1
            self._change.notify_all()
        return found

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.to_thread(self.handle_request, request)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        said = json.loads(request.read() or b"{}")
        path = request.url.raw_path.decode().partition("?")[0]
        what, key, verb = ([*map(unquote, path.split("/")[3:]), "", ""])[:3]
        tool = self._tools.get(key or said.get("tool", ""))
        if what == "tools" and not key:
            return httpx.Response(200, json=[_listed(*one) for one in self._tools.items()])
        if what == "tools" and tool and tool.kind == "readonly":
            return httpx.Response(200, json={"result": tool.run(**said["arguments"])})
        if what == "transactions" and not key and tool and tool.kind == "transactional":
            row = self._prepare(said, request.headers["Idempotency-Key"]).row
            return httpx.Response(201, json=row)
        if what != "transactions" or key not in self._kept:
            return _problem(404, "not_found", f"There is no {said.get('tool', path)}.")
        return self._answer(self._kept[key], verb, said, request)

    def _answer(
        self, found: Proposal, verb: str, said: dict[str, Any], request: httpx.Request
    ) -> httpx.Response:
        waits = found.row["outcome"]["kind"] == "pending"
        if verb and not (waits and (verb == "cancel" or found.row["question"])):
            return _problem(409, "not_possible", "It does not wait for that.")
        if verb == "cancel":
            ended = _outcome("withdrawn", "It was taken back.", ending_reason=said["reason"])
            self._put(found.transaction_id, ended)
        if verb == "answer":
            found.answers.append(said["text"])
            self._put(found.transaction_id, {})
            self._decide(self, found)
        known = request.headers.get("If-None-Match")
        with self._change:
            self._change.wait_for(
                lambda: known != f'"{found.revision}"', float(request.url.params.get("wait", 0))
            )
            etag = f'"{found.revision}"'
            if known == etag:
                return httpx.Response(304)
            return httpx.Response(200, json=found.row, headers={"ETag": etag})

    def _prepare(self, said: dict[str, Any], key: str) -> Proposal:
        if key in self._kept:
            return self._kept[key]
        new = str(uuid4())
        self._kept[key] = self._kept[new] = Proposal(
            new, said["tool"], said["arguments"], _row(new, said["tool"], self.URL)
        )
        self._decide(self, self._kept[new])
        return self._kept[new]


def _outcome(kind: str, words: str, **more: Any) -> dict[str, Any]:
    is_final = kind not in {"pending", "in_doubt"}
    said = {"kind": kind, "is_final": is_final, "sentence": f"{SAYS} {words}", "do_not_retry": True}
    return {"outcome": said, **more}


def _row(key: str, tool: str, url: str) -> dict[str, Any]:
    address = f"{url}/api/v1/transactions/{key}"
    return {
        "transaction_id": key,
        "action_summary": f"{SAYS} {tool}",
        "warnings": [SAYS],
        "expires_at": "2100-01-01T00:00:00Z",
        "links": {"wait": f"{address}?wait=30", "desk": f"{url}/transactions/{key}/"},
        **dict.fromkeys(("question", "change_request", "result")),
        **{"ending_reason": "", "receipt": "", "receipt_url": "", "decisions": [], "changed": []},
        **_outcome("pending", "It waits for sign-off."),
    }


def _listed(name: str, tool: DevelopmentTool) -> dict[str, Any]:
    said = {"description": tool.description, "kind": tool.kind, "input_schema": tool.schema}
    return {"name": name, **said}


def _problem(status: int, code: str, detail: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "detail": f"{SAYS} {detail}"})
