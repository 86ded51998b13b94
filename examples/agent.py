"""The demo agent: proposes over REST with a real token, and prints what it is told.

python examples/agent.py refund --token-file .assent/demo_agent_token
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

FINAL = {"succeeded", "failed", "compensated"}
MOST_WAITING = 6
Proposal = dict[str, Any]


class Agent:
    """One agent with one token. Safe to use from several threads."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "assent-demo-agent"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60)
        self.run_id = f"demo-{uuid.uuid4().hex[:8]}"
        self.steps = 0

    def propose(self, proposal: Proposal) -> dict[str, Any] | None:
        """The Token of Intent, or ``None`` when it was refused. Safe to repeat: one key."""
        self.steps += 1
        body = {**proposal, "run_id": self.run_id, "step_id": f"step-{self.steps}"}
        headers = {"Idempotency-Key": f'"{uuid.uuid4()}"', "traceparent": _new_trace()}
        for attempt in range(60):
            try:
                answer = self.http.post("/api/v1/transactions", json=body, headers=headers)
                break
            except httpx.TransportError:
                if attempt == 59:
                    raise
                time.sleep(1)
        told = answer.json()
        if answer.is_error:
            say("refused", f"{told['title']}: {told['detail']}")
            return None
        waits = f"waits {told['expires_in']:.0f} s for sign-off"
        say("proposed", f"{told['action_summary']} ({waits}) {told['links']['desk']}")
        return dict(told)

    def watch(self, token: dict[str, Any], stop: threading.Event) -> None:
        """Long-poll until it has ended, one line per news."""
        state, etag = token["status"], ""
        while not stop.is_set():
            try:
                answer = self.http.get(
                    token["links"]["wait"], headers={"If-None-Match": etag} if etag else {}
                )
            except httpx.TransportError:
                stop.wait(1)
                continue
            if answer.status_code == 200:
                etag, now = answer.headers["ETag"], answer.json()
                if now["status"] != state:
                    state = now["status"]
                    say(state, f"{now['action_summary']}{_news(now)}")
                if now["ledger_status"] in FINAL:
                    return
            elif answer.status_code != 304:
                stop.wait(float(answer.headers.get("Retry-After", 2)))
            else:
                stop.wait(0.2)


def _news(now: dict[str, Any]) -> str:
    if now["receipt"] and now["status"] == "committed":
        return f": receipt {now['receipt']}"
    if now["ending"] == "rejected":
        who = next((vote["principal_name"] for vote in now["decisions"]), "somebody")
        return f": {who} said no: {now['ending_reason']}"
    return f": {now['ending_reason'] or now['error']}" if now["ending"] or now["error"] else ""


def say(what: str, text: str) -> None:
    print(f"{what.replace('_', ' '):<12} {text}", flush=True)


def _new_trace() -> str:
    return f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01"


# --- what it might want ------------------------------------------------------------------------


def refund(ttl_s: int | None = None) -> Proposal:
    number = random.randint(1100, 9_999)
    reason = random.choice(
        ["arrived damaged", "never arrived", "charged twice", "canceled in time"]
    )
    proposal: Proposal = {
        "tool": "refund_customer",
        "arguments": {
            "payment_id": f"pay_{number}",
            "amount": f"{random.randint(500, 4000) / 100:.2f}",
            "reason": reason,
        },
        "reason": f"The customer wrote that the order was {reason}; the photos support it.",
    }
    return proposal if ttl_s is None else {**proposal, "ttl_s": ttl_s}


def first_refund() -> Proposal:
    run = uuid.uuid4().hex[:6]
    return {
        "tool": "refund_customer",
        "arguments": {"payment_id": "pay_1042", "amount": "48.20", "reason": f"damaged-{run}"},
        "reason": "Ana sent photos of a broken lamp. Policy says up to 50 EUR without return.",
    }


def flight() -> Proposal:
    return {
        "tool": "book_flight",
        "arguments": {
            "flight": f"AS{random.randint(100, 199)}",
            "passenger": random.choice(["Ana Ruiz", "Jonas Weber", "Mei Tanaka", "Priya Nair"])
            + f" ({uuid.uuid4().hex[:4]})",
            "max_price": "800.00",
        },
        "reason": "The fastest connection within the travel policy.",
    }


def terminate() -> Proposal:
    return {
        "tool": "terminate_cloud_instance",
        "arguments": {"instance_id": f"i-{uuid.uuid4().hex[:8]}"},
        "reason": "Idle for 30 days: less than 1 % CPU and no network traffic.",
    }


def short() -> Proposal:
    return refund(ttl_s=45)


KINDS: dict[str, Callable[[], Proposal]] = {
    "refund": refund,
    "flight": flight,
    "terminate": terminate,
    "short": short,
}


def what_next() -> Iterator[Proposal]:
    yield from (first_refund(), flight(), terminate(), short())
    while True:
        yield random.choice([refund, refund, flight, terminate, short])()


def work_forever(agent: Agent, stop: threading.Event) -> None:
    """Four proposals at once, then another every minute or so while not too many wait."""
    watching: list[threading.Thread] = []
    for number, proposal in enumerate(what_next()):
        watching = [thread for thread in watching if thread.is_alive()]
        if stop.wait(1 if number < 4 else random.uniform(60, 90)):
            return
        if number >= 4 and len(watching) >= MOST_WAITING:
            continue
        if token := agent.propose(proposal):
            watcher = threading.Thread(target=agent.watch, args=(token, stop), daemon=True)
            watcher.start()
            watching.append(watcher)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*KINDS, "all", "forever"])
    parser.add_argument("--url", default=os.environ.get("ASSENT_URL", "http://localhost:8000"))
    parser.add_argument("--token", default=os.environ.get("ASSENT_TOKEN", ""))
    parser.add_argument("--token-file", type=Path)
    options = parser.parse_args()
    token = options.token_file.read_text().strip() if options.token_file else options.token
    agent, stop = Agent(options.url, token), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if options.what == "forever":
        work_forever(agent, stop)
        return
    wanted = list(KINDS.values()) if options.what == "all" else [KINDS[options.what]]
    tokens = [token for make in wanted if (token := agent.propose(make()))]
    watchers = [threading.Thread(target=agent.watch, args=(told, stop)) for told in tokens]
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join()


if __name__ == "__main__":
    main()
