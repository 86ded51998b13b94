"""People and agents at work with a product that runs, and what became of what they did."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import httpx
from django.db import connection
from django.db.transaction import atomic

from ledger.models import Agent, AgentToken, Transaction
from ledger.states import State
from tests.forgery import move_deadline
from tests.processes import Product


class Person:
    """Somebody who signs in at the desk over HTTP, as a browser does."""

    def __init__(self, product: Product, name: str, within_s: float = 30) -> None:
        self.http = httpx.Client(base_url=product.url, timeout=within_s, follow_redirects=False)
        self.post("/sign-in/", username=name, password=name)
        assert "assent_session" in self.http.cookies

    def post(self, path: str, **form: str) -> httpx.Response:
        if "csrftoken" not in self.http.cookies:
            self.http.get("/sign-in/")
        token = {"csrfmiddlewaretoken": self.http.cookies["csrftoken"]}
        return self.http.post(path, data=form | token, headers={"Referer": str(self.http.base_url)})

    def approve(self, row: Any) -> httpx.Response:
        path = f"/transactions/{row['transaction_id']}/approve"
        return self.post(path, digest=row["intent_digest"])


class Helpdesk:
    """An agent that proposes refunds over REST."""

    def __init__(self, product: Product, agent: Agent) -> None:
        _, token = AgentToken.issue(agent, scopes=["propose"])
        self.http = httpx.Client(
            base_url=f"{product.url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
        )
        self.number = 0

    def propose(self, lapses_in_s: float | None = None) -> Any:
        self.number += 1
        arguments = {"payment_id": "pay_1042", "amount": "1.00", "reason": f"no {self.number}"}
        body = {"tool": "refund_customer", "arguments": arguments}
        with no_checkpoint() if lapses_in_s is not None else nullcontext():
            answer = self.http.post(
                "/transactions", json=body, headers={"Idempotency-Key": f"key-{self.number}"}
            )
            assert answer.status_code == 201, answer.text
            if lapses_in_s is not None:
                move_deadline(answer.json()["transaction_id"], milliseconds=int(lapses_in_s * 1000))
        return answer.json()


@contextmanager
def no_checkpoint() -> Iterator[None]:
    """A checkpoint would sign the event as it was before the test moves its deadline."""
    with atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE ledger_tile IN SHARE ROW EXCLUSIVE MODE")
        yield


def report(capsys: Any, line: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


def seconds_of(action: Callable[[], Any]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def state_of(row: Any) -> str:
    return Transaction.objects.get(pk=row["transaction_id"]).state


def committed(*rows: Any) -> bool:
    return all(state_of(row) == State.COMMITTED for row in rows)


def refunds(product: Product) -> int:
    return int(product.effects()["by_kind"].get("refund", 0))


def lateness(rows: list[Any]) -> float:
    """Seconds by which the latest of these expired late."""
    ids = [row["transaction_id"] for row in rows]
    ended = Transaction.objects.filter(pk__in=ids).values_list("decided_at", "expires_at")
    return max((decided - expires).total_seconds() for decided, expires in ended)


class Load:
    """What alice approved of what the agent proposed, one after the other."""

    def __init__(self, alice: Person, agent: Helpdesk) -> None:
        self.rows: list[Any] = []
        self.clicks: list[float] = []  # seconds
        self._stop = threading.Event()
        self._alice, self._agent = alice, agent
        self._thread = threading.Thread(target=self._run, name="load")

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            row = self._agent.propose()
            self.clicks.append(seconds_of(lambda row=row: self._alice.approve(row)))
            self.rows.append(row)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
