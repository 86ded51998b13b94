"""Sends each request to both ledgers in turn, and prints medians and their ratios."""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from http.client import HTTPConnection
from typing import Any

from bench.scale import clicks
from bench.scale.clicks import Click
from bench.scale.ledgers import Ledger, use

WARM_UP = 4
LIMIT = 1.2  # of the ratio
Once = Callable[[], float]  # does it once; milliseconds


class Client:
    """A person's browser and an agent, with one connection to the web process of one ledger."""

    def __init__(self, ledger: Ledger, port: int) -> None:
        self.ledger, self.port = ledger, port
        use(ledger.database)
        self.facts = clicks.facts()
        self._connection = HTTPConnection("localhost", port)

    def click(self, click: Click) -> float:
        path = click.path.format(**self.facts)
        return self.request("GET", path, click.who, first_byte_only=click.first_byte_only)[0]

    def request(
        self,
        method: str,
        path: str,
        who: str,
        body: dict[str, Any] | None = None,
        first_byte_only: bool = False,
    ) -> tuple[float, bytes]:
        """Milliseconds until the answer was read, and the answer, which must be a good one."""
        headers = self._headers_of(who)
        text = None if body is None else json.dumps(body)
        began = time.perf_counter()
        self._connection.request(method, path, text, headers)
        answer = self._connection.getresponse()
        content = answer.read(1 if first_byte_only else None)
        span = (time.perf_counter() - began) * 1000
        if first_byte_only:
            self._connection.close()
        assert answer.status < 300, (method, path, answer.status, content[:300])
        return span, content

    def _headers_of(self, who: str) -> dict[str, str]:
        if who.startswith("@"):
            token = self.ledger.tokens[who[1:]]
            return {
                "Authorization": f"Bearer {token}",
                "Idempotency-Key": uuid.uuid4().hex,
                "Content-Type": "application/json",
                "A2A-Version": "1.0",
            }
        if who == "scrape":
            return {"Authorization": "Bearer scrape"}
        return {"Cookie": f"assent_session={self.ledger.cookies[who]}"} if who else {}


# --- what is more than one GET -------------------------------------------------------------------


def prepare(client: Client) -> float:
    arguments = {"name": uuid.uuid4().hex}
    body = {"tool": "measured", "arguments": arguments, "reason": "bench"}
    return client.request("POST", "/api/v1/transactions", "@bench", body)[0]


def submit(client: Client) -> float:
    message = {
        "messageId": uuid.uuid4().hex,
        "role": "ROLE_USER",
        "parts": [{"data": {"question": f"Which one? {uuid.uuid4().hex}"}}],
        "metadata": {"skill_id": "ask_a_person"},
    }
    return client.request("POST", "/a2a/rest/message:send", "@bench", {"message": message})[0]


def in_this_process(work: Callable[[], Any]) -> Callable[[Client], float]:
    """Work of the sweeper's process, on the database of the client."""

    def once(client: Client) -> float:
        use_again(client.ledger.database)
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) * 1000

    return once


def use_again(database: str) -> None:
    from django.db import connection

    if connection.settings_dict["NAME"] != database:
        connection.close()
        connection.settings_dict["NAME"] = database
    connection.ensure_connection()


def approve_one() -> None:
    from bench.execution import approve
    from ledger.models import Transaction

    row = Transaction.objects.filter(tenant="bench").pending().order_by("-pk")[0]
    approve(row.pk, row.intent_digest)


def sweep_once() -> None:
    from ledger.workers.sweeper import Sweeper

    sweeper = Sweeper()
    sweeper.settle()
    sweeper.enqueue_due()


def more_than_a_click() -> dict[str, Callable[[Client], float]]:
    return {
        "prepare": prepare,
        "A2A, send": submit,
        "approve, in one process": in_this_process(approve_one),
        "a round of the sweeper": in_this_process(sweep_once),
    }


# --- comparing -----------------------------------------------------------------------------------


def compare(ledgers: Sequence[Ledger], ports: Sequence[int], *, times: int, only: str) -> None:
    """Measure everything whose name has ``only`` in it; print the table."""
    clients = [Client(ledger, port) for ledger, port in zip(ledgers, ports, strict=True)]
    small, large = (f"{ledger.rows:,}" for ledger in ledgers)
    print(f"\nmedian ms of {times}, at {small} and {large} ended transactions; limit {LIMIT}\n")
    print(f"| what | {small} | {large} | ratio | of the quickest |")
    print("| --- | --: | --: | --: | --: |")
    clicked = {click.name: partial(_click, click) for click in clicks.ALL}
    over = 0
    for name, do in {**clicked, **more_than_a_click()}.items():
        if only in name:
            over += _row(name, [partial(do, client) for client in clients], times)
    print(f"\n{over} over the limit")


def _click(click: Click, client: Client) -> float:
    return client.click(click)


def _row(name: str, pair: Sequence[Once], times: int) -> bool:
    for _ in range(WARM_UP):
        for once in pair:
            once()
    spans: list[list[float]] = [[], []]
    for _ in range(times):
        for place, once in enumerate(pair):
            spans[place].append(once())
    small, large = (statistics.median(values) for values in spans)
    quickest = min(spans[1]) / min(spans[0])
    is_over = min(large / small, quickest) > LIMIT
    mark = " **over**" if is_over else ""
    print(
        f"| {name} | {small:.1f} | {large:.1f} | {large / small:.2f}{mark} | {quickest:.2f} |",
        flush=True,
    )
    return is_over
