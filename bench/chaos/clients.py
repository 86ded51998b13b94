"""The clients of a storm: agents that propose, people and a supervising agent that decide.

They behave as the documentation tells clients to: the same Idempotency-Key for every repetition of
a request, waits where the answer says so, a verdict repeated until it is answered. Every answer
that counts is written into the clients' log.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from bench.chaos.installation import Installation
from bench.chaos.records import ClientLog
from bench.chaos.script import CHANGED, ONE_IN, Proposed

PATIENCE_S = 120.0  # a request is repeated for so long
TIMEOUT = httpx.Timeout(8, connect=2)
READ_SHARE = 0.15  # of the proposals, after which the agent reads an earlier one


class Unanswered(Exception):
    """Nobody answered within the patience of the client."""


class Caller:
    """A client with its own connections. It turns to the next web process when one is away."""

    patience_s = PATIENCE_S

    def __init__(self, here: Installation, headers: dict[str, str], first: int = 0) -> None:
        self._turns = itertools.cycle(here.webs[first % len(here.webs) :] + here.webs[:first])
        self._client = httpx.Client(headers=headers, timeout=TIMEOUT, trust_env=False)
        self._base = next(self._turns)

    def once(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Raises ``httpx.TransportError``; the next request goes to another process then."""
        try:
            return self._client.request(method, self._base + path, **request)
        except httpx.TransportError:
            self._base = next(self._turns)
            raise

    def until_answered(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Repeat it until there is an answer that counts. Raises ``Unanswered``."""
        gives_up_at = time.monotonic() + self.patience_s
        while time.monotonic() < gives_up_at:
            try:
                answer = self.once(method, path, **request)
            except httpx.TransportError:
                time.sleep(0.2)
                continue
            if not is_to_be_repeated(answer):
                return answer
            time.sleep(min(float(answer.headers.get("Retry-After", 0.5)), 5))
        raise Unanswered(f"{method} {path}")

    @property
    def cookies(self) -> httpx.Cookies:
        return self._client.cookies


def is_to_be_repeated(answer: httpx.Response) -> bool:
    if answer.status_code == 409:
        return "Retry-After" in answer.headers
    return answer.status_code == 429 or answer.status_code >= 500


@dataclass(order=True)
class Due:
    """A verdict that somebody is going to give, and when."""

    at: float
    verdict: str = field(compare=False)
    transaction: str = field(compare=False)
    before: str = field(default="", compare=False)  # change, ask or more-time


class Todo:
    """Decisions for people, soonest first. ``None`` says that it is over."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, due: Due) -> None:
        with self._changed:
            heapq.heappush(self._heap, due)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Due]:
        while (due := self._next()) is not None:
            yield due

    def _next(self) -> Due | None:
        with self._changed:
            while True:
                wait_s = self._heap[0].at - time.monotonic() if self._heap else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._heap)
                if wait_s is None and self._is_closed:
                    return None
                self._changed.wait(wait_s)


@dataclass
class Desk:
    """Transactions that the agents hand on to those who decide."""

    people: dict[str, Todo]
    supervisor: Todo = field(default_factory=Todo)
    operator: Todo = field(default_factory=Todo)

    def close(self) -> None:
        for todo in (*self.people.values(), self.supervisor, self.operator):
            todo.close()


class Agent:
    """Proposes over REST, now and then over A2A, and cancels or reads what it has proposed."""

    def __init__(self, name: str, here: Installation, log: ClientLog, desk: Desk) -> None:
        self.name, self._principal = name, f"agent:storm/{name}"
        self._here, self._log, self._desk = here, log, desk
        headers = {"Authorization": f"Bearer {here.tokens[name]}"}
        self.caller = Caller(here, headers, first=sum(name.encode()) % 2)
        self._own: dict[str, Proposed] = {}
        self._dice = Random(name)

    def propose(self, proposed: Proposed, rival: Agent) -> bool:
        """True if it was acknowledged."""
        if proposed.by_a2a:
            return self._submit(proposed)
        if proposed.manner == "twice":
            twin = threading.Thread(target=self._twin().prepare, args=[proposed], daemon=True)
            twin.start()
        transaction = self.prepare(proposed)
        if proposed.manner == "again":
            self.prepare(proposed)
        elif proposed.manner == "rival" and transaction:
            rival.prepare(proposed)
        if transaction is None:
            return False
        self._own[transaction] = proposed
        self._hand_on(proposed, transaction)
        if self._dice.random() < READ_SHARE:
            self.read(self._dice.choice(list(self._own)))
        return True

    def _twin(self) -> Agent:
        """The same agent on connections of its own."""
        return Agent(self.name, self._here, self._log, self._desk)

    def prepare(self, proposed: Proposed) -> str | None:
        """The id of the transaction that the agent was told of; it is in the log by then."""
        headers = {"Idempotency-Key": proposed.key}
        told = {"by": self._principal, "key": proposed.key, "number": proposed.number}
        self._log.write("asked", **told)
        try:
            answer = self.caller.until_answered(
                "POST", "/api/v1/transactions", json=proposed.body, headers=headers
            )
        except Unanswered:
            self._log.write("gave_up", **told)
            return None
        if answer.status_code not in {200, 201}:
            self._log.write("refused", **told, status=answer.status_code, code=_code(answer))
            return None
        transaction = str(answer.json()["transaction_id"])
        answered = {"status": answer.status_code, "answer": _digest(answer)}
        is_replay = answer.headers.get("Idempotent-Replayed") == "true"
        self._log.write("prepared", **told, **answered, id=transaction, is_replay=is_replay)
        return transaction

    def _submit(self, proposed: Proposed) -> bool:
        """As a task of the skill ``prepare_transaction``."""
        body = {"skill": "prepare_transaction", "input": proposed.body}
        told = {"by": self._principal, "key": proposed.key, "number": proposed.number}
        headers = {"Idempotency-Key": proposed.key}
        try:
            answer = self.caller.until_answered("POST", "/api/v1/tasks", json=body, headers=headers)
        except Unanswered:
            self._log.write("gave_up", **told)
            return False
        if answer.status_code not in {200, 201}:
            self._log.write("refused", **told, status=answer.status_code, code=_code(answer))
            return False
        self._log.write("task_accepted", **told, task=answer.json()["task_id"])
        with suppress(Unanswered):
            self._follow(proposed)
        return True

    def _follow(self, proposed: Proposed) -> None:
        """Hand the transaction on once the task has made it."""
        gives_up_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < gives_up_at:
            query = {"run_id": proposed.key}
            answer = self.caller.until_answered("GET", "/api/v1/transactions", params=query)
            if rows := answer.json().get("items"):
                self._hand_on(proposed, rows[0]["transaction_id"])
                return
            time.sleep(0.5)

    def _hand_on(self, proposed: Proposed, transaction: str) -> None:
        now = time.monotonic()
        if proposed.tool == "order" and proposed.fate in {"approve", "reject"}:
            self._desk.supervisor.put(Due(now, proposed.fate, transaction))
        elif proposed.fate in {"approve", "reject"}:
            first = list(self._desk.people.values())[proposed.number % len(self._desk.people)]
            first.put(Due(now, proposed.fate, transaction, _before(proposed)))
        elif proposed.fate == "race":
            for todo, verdict in zip(
                self._desk.people.values(), ("approve", "reject", "approve"), strict=True
            ):
                todo.put(Due(now, verdict, transaction))
        elif proposed.fate == "cancel":
            self.cancel(transaction)
        if proposed.is_compensated:
            self._desk.operator.put(Due(now + 3, "compensate", transaction))

    def cancel(self, transaction: str) -> None:
        path = f"/api/v1/transactions/{transaction}/cancel"
        with suppress(Unanswered):
            answer = self.caller.until_answered("POST", path, json={"reason": "storm"})
            if answer.status_code == 200:
                self._tell_decided(transaction, "cancel")

    def _tell_decided(self, transaction: str, verdict: str) -> None:
        self._log.write("decided", by=self._principal, id=transaction, verdict=verdict)

    def read(self, transaction: str) -> None:
        """Read it once, and keep what it says."""
        with suppress(httpx.TransportError):
            answer = self.caller.once("GET", f"/api/v1/transactions/{transaction}")
            if answer.status_code == 200:
                body = answer.json()
                if body["question"]:
                    self.caller.once(
                        "POST", f"/api/v1/transactions/{transaction}/answer", json={"text": "7"}
                    )
                told = {"id": transaction, "state": body["status"], "receipt": body["receipt"]}
                self._log.write("read", by=self._principal, **told)

    def read_all(self) -> None:
        """At the end: what this agent is told of everything it has proposed."""
        for transaction in self._own:
            self.read(transaction)

    @property
    def newest(self) -> str:
        """The transaction that it was told of last."""
        return next(reversed(self._own))

    def repeat_all(self) -> None:
        """At the end: each request once more, with its key."""
        for proposed in self._own.values():
            self.prepare(proposed)

    def supervise(self) -> None:
        """Decide over REST what the contract leaves to a supervising agent."""
        for due in self._desk.supervisor:
            path = f"/api/v1/transactions/{due.transaction}"
            with suppress(Unanswered):
                row = self.caller.until_answered("GET", path)
                if row.status_code != 200:
                    continue
                body = {"intent_digest": row.json()["intent_digest"], "reason": "storm"}
                answer = self.caller.until_answered("POST", f"{path}/{due.verdict}", json=body)
                if answer.status_code == 200:
                    self._tell_decided(due.transaction, due.verdict)


class Person:
    """Decides at the desk as a browser does: a page, and its form with the CSRF token.

    Has signed in before the storm.
    """

    def __init__(self, name: str, here: Installation, log: ClientLog, todo: Todo) -> None:
        self._principal = here.people[name]["principal"]
        self._log, self._todo = log, todo
        self._caller = Caller(here, {}, first=len(name))
        self._caller.cookies.set("assent_session", here.people[name]["session"])

    def work(self) -> None:
        """Give every verdict that is due, until there is nothing more to decide."""
        for due in self._todo:
            with suppress(Unanswered):
                self.decide(due)

    def decide(self, due: Due) -> None:
        path = f"/transactions/{due.transaction}/"
        if due.before:
            self._talk(path, due.before)
        page = self._caller.until_answered("GET", path)
        form = _form(page.text, f"{path}{due.verdict}")
        if form is None:
            if due.verdict == "compensate" and _is_under_way(page.text):
                self._todo.put(Due(time.monotonic() + 3, due.verdict, due.transaction))
            return  # somebody was faster
        form |= {"reason": "storm", "typed": _confirmation(page.text)}
        answer = self._caller.until_answered("POST", f"{path}{due.verdict}", data=form)
        if answer.status_code == 302:
            told = {"by": self._principal, "id": due.transaction, "verdict": due.verdict}
            self._log.write("decided", **told)

    def _talk(self, path: str, what: str) -> None:
        """Correct it, ask its agent or give it time; whatever comes of that, it is decided then."""
        address = f"{path}{what}{'/' if what == 'change' else ''}"
        page = self._caller.until_answered("GET", address if what == "change" else path)
        if page.status_code != 200:
            return
        form = {name: _field(page.text, name) for name in ("csrfmiddlewaretoken", *SEEN)}
        form |= {"times": "1", "text": "Why so often?", "reason": "storm"}
        if until := re.search(r'name="until" value="(\d{4}-[^"]+)"', page.text):
            form["until"] = until[1]
        with suppress(httpx.TransportError):
            self._caller.once("POST", address, data=form)


SEEN = ("digest", "shown")


def _before(proposed: Proposed) -> str:
    if proposed.tool not in CHANGED:
        return ""
    return {0: "change", 1: "ask", 2: "more-time"}.get(proposed.number % ONE_IN, "")


def _form(page: str, action: str) -> dict[str, str] | None:
    """The hidden fields of the form that posts there, if the page offers it."""
    forms: list[str] = re.findall(rf'<form[^>]*action="{action}[^"]*".*?</form>', page, re.S)
    if not forms:
        return None
    names = ("csrfmiddlewaretoken", "digest", "shown")
    return {name: value for name in names if (value := _field(forms[0], name))}


def _field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    return found[1] if found else ""


def _confirmation(page: str) -> str:
    found = re.search(r"Type <b>(?:<bdi>)?([^<]*)<", page)
    return found[1] if found else ""


def _is_under_way(page: str) -> bool:
    return "Signed off; a worker" in page or "is carrying it" in page or "Say what happened" in page


def _digest(answer: httpx.Response) -> str:
    """Of what a repetition has to say again; ``now`` is how the transaction stands today."""
    told = {name: value for name, value in answer.json().items() if name != "now"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _code(answer: httpx.Response) -> str:
    with suppress(json.JSONDecodeError, AttributeError):
        return str(answer.json().get("code", ""))
    return ""
