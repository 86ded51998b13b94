"""A client of Assent's REST interface: copy this file; it needs httpx and nothing else.

    desk = Assent()                      # ASSENT_URL and ASSENT_TOKEN, or Assent(url, token)
    intent = desk.prepare("refund_customer", {"payment_id": "pay_1042", ...}, key="run-7/call-1")
    outcome = desk.wait(intent.transaction_id, timeout=60)
    outcome.for_model()                  # what the language model is told

People may ask about a proposal before they decide: ``Assent(on_question=…)`` is given the outcome,
whose ``question`` it is, and returns the answer. Without it ``wait`` returns, and ``answer``
answers.

``AsyncAssent`` has the same methods as coroutines. Assent carries a transaction out, or not; this
client never does. Requests are repeated while Assent is busy or out of reach, which is safe: each
proposal has an idempotency key, and the same key is the same transaction for ever.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote
from uuid import uuid4

import httpx

PATIENCE_S = 60.0  # how long requests are repeated while Assent is busy or out of reach
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 30.0
LONG_POLL_S = 30.0
BUSY = {429, 500, 502, 503, 504}
# Refusals after which a proposal with other arguments makes sense.
CORRECTABLE = {"invalid_arguments", "invalid_request", "plan_refused", "unsafe_text"}
TASK_ENDED = {"completed", "failed", "canceled", "rejected"}


class AssentError(Exception):
    """The tree: ``Refused``, ``Unreachable``, ``NotAnswered``, ``BadSignature``."""


class Unreachable(AssentError):
    """Assent did not answer in time. Repeat with the same key: nothing is done twice."""


class NotAnswered(AssentError):
    """Nobody answered the question. The text says why."""


class BadSignature(AssentError):
    """A webhook that Assent did not send, or that is too old."""


class Refused(AssentError):
    """Assent refused a request; nothing was proposed. ``code`` is stable, ``hint`` helps."""

    def __init__(self, status: int, problem: Any) -> None:
        self.status, self.problem = status, problem if isinstance(problem, dict) else {}
        self.code, self.hint = (str(self.problem.get(name, "")) for name in ("code", "hint"))
        self.errors = self.problem.get("errors", [])
        detail = self.problem.get("detail") or self.problem.get("title") or f"HTTP {status}"
        super().__init__(f"{detail.removesuffix('.')}. {self.hint}" if self.hint else detail)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.problem)

    def for_model(self) -> dict[str, Any]:
        """The same members as those of ``Outcome.for_model``, as far as there is a transaction."""
        return {
            "status": "refused",
            "message": f"It was not proposed, and nothing was carried out. {self}",
            "do_not_retry": self.code not in CORRECTABLE and self.status not in BUSY,
            "code": self.code,
            "errors": self.errors,
        }


class More(TypedDict, total=False):
    """Optional fields of a proposal. ``reason``: why, which the approver reads; ``replaces``: the
    id of what was sent back, where this follows it."""

    reason: str
    run_id: str
    step_id: str
    replaces: str
    ttl_s: int


@dataclass(frozen=True)
class Tool:
    """One entry of the catalogue. ``schema``: JSON Schema of the arguments."""

    name: str
    description: str
    schema: dict[str, Any]
    kind: str  # "transactional" waits for sign-off, "readonly" answers at once


@dataclass(frozen=True)
class Intent:
    """A proposal that waits for sign-off. ``url``: where people decide."""

    transaction_id: str
    summary: str
    warnings: list[str]
    expires_at: str
    url: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """A transaction's outcome. ``pending`` and ``in_doubt`` are not final: neither is a failure.

    ``kind``: pending, in_doubt, succeeded, refused, expired, withdrawn or failed. ``changed`` is
    what people changed, ``question`` waits for an answer, ``change_request`` is why it was sent
    back.
    """

    transaction_id: str
    kind: str
    is_final: bool
    sentence: str
    do_not_retry: bool
    url: str
    reason: str = ""
    decided_by: list[str] = field(default_factory=list)
    receipt: str = ""
    receipt_url: str = ""
    result: dict[str, Any] | None = None
    changed: list[dict[str, Any]] = field(default_factory=list)
    question: str = ""
    change_request: str = ""

    @property
    def succeeded(self) -> bool:
        return self.kind == "succeeded"

    def for_model(self) -> dict[str, Any]:
        """The outcome for the model of any framework: plain JSON."""
        said: dict[str, Any] = {
            "status": self.kind,
            "message": self.sentence,
            "do_not_retry": self.do_not_retry,
            "decided_by": self.decided_by,
            "transaction_id": self.transaction_id,
            "url": self.url,
            "changed": self.changed,
        }
        if self.question:
            said["question"] = self.question
        if self.change_request:
            said |= {"change_request": self.change_request, "replaces": self.transaction_id}
        if self.succeeded:
            told = {"receipt": self.receipt, "receipt_url": self.receipt_url, "result": self.result}
        else:
            told = {"reason": self.reason}
        return said | told


def key_of(*parts: str) -> str:
    """An idempotency key of a run's id and a call's id: the same parts, the same transaction."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def verify_webhook(
    headers: Mapping[str, str], body: bytes, secret: str, tolerance_s: float = 300
) -> dict[str, Any]:
    """The webhook's content. Raises ``BadSignature``. The same ``webhook-id`` may come twice."""
    found = {name.lower(): value for name, value in headers.items()}
    message_id, at = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > tolerance_s:
        raise BadSignature("Its timestamp is missing, or too far from this machine's clock.")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    if not key:
        raise ValueError("The webhook's secret is empty, or not one of Assent's.")
    signed = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(signed)
    given = found.get("webhook-signature", "").encode().split()
    if not any(hmac.compare_digest(expected, one) for one in given):
        raise BadSignature("The signature does not fit: another secret, or another sender.")
    content: dict[str, Any] = json.loads(body)
    return content


# --- what is sent, and when again: without any input or output, for both clients ----------------

T = TypeVar("T")


@dataclass(frozen=True)
class _Request:
    method: str
    url: str
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


# Yields a request and is sent its answer, or yields seconds to pause; returns the result.
_Flow = Generator["_Request | float", Any, T]
TRANSACTIONS = "/api/v1/transactions"
OnQuestion = Callable[[Outcome], str]


def _answer(request: _Request, patience_s: float = PATIENCE_S) -> _Flow[httpx.Response]:
    """The answer, asked for again while Assent is busy or out of reach."""
    give_up_at, pause = time.monotonic() + patience_s, FIRST_PAUSE_S
    while True:
        failure: AssentError
        try:
            answer: httpx.Response = yield request
        except httpx.TransportError as error:
            failure = Unreachable(
                f"Assent does not answer at {error.request.url} ({type(error).__name__}: {error})."
            )
        else:
            said = _read(answer)
            if answer.status_code == 304 or (answer.is_success and said is not None):
                return answer
            if answer.is_success:
                raise Unreachable("Something else than Assent answers at this address.")
            failure = Refused(answer.status_code, said)
            if answer.status_code not in BUSY and failure.code != "request_in_progress":
                raise failure
            pause = max(pause, _seconds(answer))
        if time.monotonic() + pause > give_up_at:
            raise failure
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _read(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _seconds(answer: httpx.Response) -> float:
    asked_for = answer.headers.get("Retry-After", "")
    return float(asked_for) if asked_for.isdecimal() else 0.0


def _tools() -> _Flow[list[Tool]]:
    answer = yield from _answer(_Request("GET", "/api/v1/tools"))
    return [
        Tool(one["name"], one["description"], one["input_schema"], one["kind"])
        for one in answer.json()
    ]


def _call(tool: str, arguments: Mapping[str, Any]) -> _Flow[Any]:
    path = f"/api/v1/tools/{quote(tool, safe='')}/call"
    answer = yield from _answer(_Request("POST", path, {"arguments": dict(arguments)}))
    return answer.json()["result"]


def _prepare(tool: str, arguments: Mapping[str, Any], key: str, more: More) -> _Flow[Intent]:
    headers = {"Idempotency-Key": f'"{key or uuid4()}"'}
    said = {"tool": tool, "arguments": dict(arguments), **more}
    token = (yield from _answer(_Request("POST", TRANSACTIONS, said, headers))).json()
    return Intent(
        transaction_id=token["transaction_id"],
        summary=token["action_summary"],
        warnings=token["warnings"],
        expires_at=token["expires_at"],
        url=token["links"]["desk"],
    )


def _path_of(transaction_id: str, verb: str = "") -> str:
    return f"{TRANSACTIONS}/{quote(str(transaction_id), safe='')}{verb}"


def _get(transaction_id: str, on_question: OnQuestion | None) -> _Flow[Outcome]:
    answer = yield from _answer(_Request("GET", _path_of(transaction_id)))
    answer = yield from _answered(answer, on_question)
    return _outcome(answer.json())


def _answered(answer: httpx.Response, on_question: OnQuestion | None) -> _Flow[httpx.Response]:
    """The transaction once the question in it, if there is one, was answered."""
    now = answer.json()
    if now["question"] is None or on_question is None:
        return answer
    try:
        said = _say(now["transaction_id"], on_question(_outcome(now)))
        return (yield from _answer(said))
    except Refused as refusal:
        if refusal.status != 409:  # it was decided meanwhile, or answered
            raise
    return (yield from _answer(_Request("GET", _path_of(now["transaction_id"]))))


def _say(transaction_id: str, text: str) -> _Request:
    return _Request("POST", _path_of(transaction_id, "/answer"), {"text": text})


def _answer_question(transaction_id: str, text: str) -> _Flow[Outcome]:
    answer = yield from _answer(_say(transaction_id, text))
    return _outcome(answer.json())


def _wait(
    transaction_id: str, timeout: float | None, on_question: OnQuestion | None
) -> _Flow[Outcome]:
    give_up_at = float("inf") if timeout is None else time.monotonic() + timeout
    request = _Request("GET", _path_of(transaction_id))
    answer = yield from _answer(request, max(PATIENCE_S, give_up_at - time.monotonic()))
    answer = yield from _answered(answer, on_question)
    now, etag = answer.json(), answer.headers.get("ETag", "")
    while not _has_news(now, on_question) and (left := give_up_at - time.monotonic()) > 0:
        url = httpx.URL(now["links"]["wait"]).copy_set_param(
            "wait", f"{min(left, LONG_POLL_S):.1f}"
        )
        asked_at = time.monotonic()
        poll = _Request("GET", str(url), headers={"If-None-Match": etag})
        answer = yield from _answer(poll, max(PATIENCE_S, left))
        if answer.status_code == 200:
            answer = yield from _answered(answer, on_question)
            now, etag = answer.json(), answer.headers.get("ETag", "")
        elif time.monotonic() - asked_at < 1:  # it did not hold the request
            yield min(FIRST_PAUSE_S, max(left, 0.0))
    return _outcome(now)


def _has_news(now: dict[str, Any], on_question: OnQuestion | None) -> bool:
    asks = now["question"] is not None and on_question is None
    return asks or bool(now["outcome"]["is_final"])


def _outcome(row: dict[str, Any]) -> Outcome:
    outcome = row["outcome"]
    return Outcome(
        transaction_id=row["transaction_id"],
        kind=outcome["kind"],
        is_final=outcome["is_final"],
        sentence=outcome["sentence"],
        do_not_retry=outcome["do_not_retry"],
        url=row["links"]["desk"],
        reason=row["ending_reason"],
        decided_by=[one["principal_name"] or one["principal"] for one in row["decisions"]],
        receipt=row["receipt"],
        receipt_url=row["receipt_url"],
        result=row["result"],
        changed=row["changed"],
        question=(row["question"] or {}).get("text", ""),
        change_request=(row["change_request"] or {}).get("text", ""),
    )


def _cancel(transaction_id: str, reason: str) -> _Flow[Outcome]:
    said = _Request("POST", _path_of(transaction_id, "/cancel"), {"reason": reason})
    answer = yield from _answer(said)
    return _outcome(answer.json())


def _ask(text: str, options: Sequence[str], key: str, ttl_s: float) -> _Flow[str]:
    question: dict[str, Any] = {"text": text, "ttl_s": ttl_s}
    if options:
        question["form"] = {"type": "string", "enum": list(options)}
    body = {"skill": "ask_a_person", "input": question}
    headers = {"Idempotency-Key": f'"{key or uuid4()}"'}
    request = _Request("POST", "/api/v1/tasks", body, headers)
    task = (yield from _answer(request)).json()
    while task["state"] not in TASK_ENDED:
        yield float(task["retry_after_s"] or FIRST_PAUSE_S)
        path = f"/api/v1/tasks/{quote(task['task_id'], safe='')}"
        task = (yield from _answer(_Request("GET", path), LONGEST_PAUSE_S + PATIENCE_S)).json()
    if task["state"] != "completed":
        raise NotAnswered((task["reason"] or {}).get("detail") or f"It was {task['state']}.")
    answer: str = task["result"]["answer"]
    return answer


@dataclass(frozen=True)
class _End(Generic[T]):
    value: T


def _next(flow: _Flow[T], said: httpx.Response | Exception | None) -> _Request | float | _End[T]:
    """The flow's next step, once it was told of its last one."""
    try:
        return flow.throw(said) if isinstance(said, Exception) else flow.send(said)
    except StopIteration as end:
        return _End(end.value)


# --- the two clients ------------------------------------------------------------------------------


def _options(url: str, token: str) -> dict[str, Any]:
    token = token or os.environ["ASSENT_TOKEN"]
    url = url or os.environ.get("ASSENT_URL", "http://localhost:8000")
    if httpx.URL(url).scheme not in {"http", "https"}:
        raise ValueError(f"{url!r} is no address: it begins with neither http:// nor https://.")
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {token}", "User-Agent": "assent-client"},
        "timeout": httpx.Timeout(LONG_POLL_S + 15, connect=5),
    }


class Assent:
    """The client for programs without an event loop. Threads may share one."""

    def __init__(
        self,
        url: str = "",
        token: str = "",
        transport: httpx.BaseTransport | None = None,
        on_question: OnQuestion | None = None,
    ) -> None:
        self._on_question = on_question
        self._http = httpx.Client(**_options(url, token), transport=transport)

    def close(self) -> None:
        self._http.close()

    def tools(self) -> list[Tool]:
        """The tools that this token may use."""
        return self._run(_tools())

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The result of a tool that only reads. Raises ``Refused``."""
        return self._run(_call(tool, arguments))

    def prepare(
        self, tool: str, arguments: Mapping[str, Any], *, key: str = "", **more: Unpack[More]
    ) -> Intent:
        """Propose. Nothing happens until it is signed off. Raises ``Refused, Unreachable``.

        With the same ``key`` it is the same transaction, in whichever process and however often.
        """
        return self._run(_prepare(tool, arguments, key, more))

    def get(self, transaction_id: str) -> Outcome:
        """The transaction as it is now."""
        return self._run(_get(transaction_id, self._on_question))

    def wait(self, transaction_id: str, timeout: float | None = None) -> Outcome:
        """Its final outcome; after ``timeout`` seconds how it stands then, perhaps not final, and
        so as soon as it has a question that nobody answers here."""
        return self._run(_wait(transaction_id, timeout, self._on_question))

    def answer(self, transaction_id: str, text: str) -> Outcome:
        """Answer the question that it has. Raises ``Refused`` where none waits."""
        return self._run(_answer_question(transaction_id, text))

    def cancel(self, transaction_id: str, reason: str = "") -> Outcome:
        """Take a proposal back, as long as nobody has decided. Raises ``Refused``."""
        return self._run(_cancel(transaction_id, reason))

    def ask(
        self, text: str, options: Sequence[str] = (), *, key: str = "", ttl_s: float = 600
    ) -> str:
        """A person's answer; needs the scope ``submit``. Raises ``NotAnswered, Refused``."""
        return self._run(_ask(text, options, key, ttl_s))

    def _run(self, flow: _Flow[T]) -> T:
        said: httpx.Response | Exception | None = None
        while not isinstance(step := _next(flow, said), _End):
            try:
                if isinstance(step, float):
                    time.sleep(step)
                    said = None
                else:
                    said = self._http.request(**vars(step))
            except httpx.TransportError as failure:
                said = failure
        return step.value


class AsyncAssent:
    """The same for programs with an event loop; ``Assent`` describes each method."""

    def __init__(
        self,
        url: str = "",
        token: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
        on_question: OnQuestion | None = None,
    ) -> None:
        self._on_question = on_question
        self._http = httpx.AsyncClient(**_options(url, token), transport=transport)

    async def close(self) -> None:
        await self._http.aclose()

    async def tools(self) -> list[Tool]:
        return await self._run(_tools())

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        return await self._run(_call(tool, arguments))

    async def prepare(
        self, tool: str, arguments: Mapping[str, Any], *, key: str = "", **more: Unpack[More]
    ) -> Intent:
        return await self._run(_prepare(tool, arguments, key, more))

    async def get(self, transaction_id: str) -> Outcome:
        return await self._run(_get(transaction_id, self._on_question))

    async def wait(self, transaction_id: str, timeout: float | None = None) -> Outcome:
        return await self._run(_wait(transaction_id, timeout, self._on_question))

    async def answer(self, transaction_id: str, text: str) -> Outcome:
        return await self._run(_answer_question(transaction_id, text))

    async def cancel(self, transaction_id: str, reason: str = "") -> Outcome:
        return await self._run(_cancel(transaction_id, reason))

    async def ask(
        self, text: str, options: Sequence[str] = (), *, key: str = "", ttl_s: float = 600
    ) -> str:
        return await self._run(_ask(text, options, key, ttl_s))

    async def _run(self, flow: _Flow[T]) -> T:
        said: httpx.Response | Exception | None = None
        while not isinstance(step := _next(flow, said), _End):
            try:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    said = None
                else:
                    said = await self._http.request(**vars(step))
            except httpx.TransportError as failure:
                said = failure
        return step.value
