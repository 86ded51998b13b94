"""An installation on a database of its own: its processes, its agent and its manager, over HTTP."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx

from tests.operations.clusters import PATIENCE_S, until
from tests.processes import ROOT, Product, _listens, free_port

PASSWORD = "demo-alice"
PAYMENT = "pay_2003"


class Installation(Product):
    """Processes of the product on ``database``; ``owner`` is the URL that migrates it."""

    def __init__(self, database: str, owner: str) -> None:
        super().__init__()
        self.environment |= {
            "ASSENT_TOOL_APPS": "examples.tools",
            "ASSENT_CHECKPOINT_EVERY_S": "0.5",
            "ASSENT_LIMITS": "off",
        }
        self.move_to(database, owner)
        self.token, self.other_port = "", free_port()

    def manage(self, *arguments: str, expect: int = 0, **environment: str) -> str:
        """Run ``manage.py``; what it wrote to both outputs."""
        result = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.root,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == expect, result.stdout + result.stderr
        return result.stdout + result.stderr

    def run(
        self, *command: str, seconds: float, **environment: str
    ) -> subprocess.CompletedProcess[str] | None:
        """Run a process of the product; ``None`` if it still runs after so many seconds."""
        try:
            return subprocess.run(
                [sys.executable, *command],
                cwd=ROOT,
                env=self.environment | environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return None

    def set_up(self) -> None:
        """Tables, an agent with a token, and alice, who approves."""
        self.manage("migrate", "--noinput")
        self.manage(
            *("createsuperuser", "--noinput", "--username", "alice", "--email", "alice@acme.test"),
            DJANGO_SUPERUSER_PASSWORD=PASSWORD,
        )
        self.manage("invite", "--tenant", "acme", "--user", "alice", "--role", "approver")
        out = self.manage(
            *("issue_token", "--tenant", "acme", "--agent", "helpdesk", "--scope", "propose"),
            *("--scope", "read_all", "--tool", "*"),
        )
        self.token = out.split()[-1]

    def move_to(self, database: str, owner: str) -> None:
        """The processes that start from now on use another database."""
        self.environment |= {
            "DATABASE_URL": database,
            "ASSENT_LOG_DATABASE_URL": database.replace("//assent_app@", "//assent_log@"),
            "ASSENT_OWNER_DATABASE_URL": owner,
        }

    def kill_all(self) -> None:
        """Every process but the outside world."""
        for name in set(self.processes) - {"sandbox"}:
            self.kill(name)

    def replace(self, name: str) -> None:
        """As a deployment does: SIGTERM, wait for its end, start the next one."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait(PATIENCE_S)
        self.start(name)

    def _command(self, name: str) -> list[str]:
        if name != "other":
            return super()._command(name)
        port = str(self.web_port)
        return [str(self.other_port) if part == port else part for part in super()._command("web")]

    def _port(self, name: str) -> int | None:
        return self.other_port if name == "other" else super()._port(name)

    def _wait_until_up(self, name: str) -> None:
        if (port := self._port(name)) is not None:
            until(lambda: _listens(port), what=f"{name} listens")

    def agent(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=PATIENCE_S
        )

    def propose(self, agent: httpx.Client | None = None, amount: str = "1.00") -> str:
        """Propose a refund that is like no other; the id of the transaction."""
        with agent or self.agent() as client:
            return str(propose(client, amount)["transaction_id"])

    def approve(self, transaction_id: str) -> None:
        """As alice does on the desk."""
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S, follow_redirects=True) as browser:
            sign_in(browser)
            approve(browser, transaction_id)

    def state_of(self, transaction_id: str) -> str:
        """Its state, as the agent reads it; who asks too often is told to wait."""
        with self.agent() as client:
            answer = client.get(f"/api/v1/transactions/{transaction_id}")
            while answer.status_code == 429:
                time.sleep(float(answer.headers["Retry-After"]))
                answer = client.get(f"/api/v1/transactions/{transaction_id}")
        return str(answer.raise_for_status().json()["status"])

    def until_state(self, transaction_id: str, state: str, seconds: float = PATIENCE_S) -> None:
        until(lambda: self.state_of(transaction_id) == state, seconds, f"it is {state}")


def propose(client: httpx.Client, amount: str = "1.00", key: str = "") -> dict[str, Any]:
    """A refund whose reason, and so whose operation, is like no other."""
    key = key or uuid4().hex
    answer = client.post(
        "/api/v1/transactions",
        json={
            "tool": "refund_customer",
            "arguments": {"payment_id": PAYMENT, "amount": amount, "reason": key},
            "reason": "broken",
        },
        headers={"Idempotency-Key": key},
    )
    return dict(answer.raise_for_status().json())


def sign_in(browser: httpx.Client) -> None:
    form = fields(browser.get("/sign-in/").text)
    answer = browser.post("/sign-in/", data=form | {"username": "alice", "password": PASSWORD})
    assert answer.status_code == 200, answer.text


def approve(browser: httpx.Client, transaction_id: str) -> None:
    page = browser.get(f"/transactions/{transaction_id}/").raise_for_status().text
    form = fields(page, "approve")
    form.pop("shown", None)  # how long it was open, which slows down who approves fast
    answer = browser.post(f"/transactions/{transaction_id}/approve", data=form)
    assert answer.status_code == 200, answer.text


def fields(page: str, action: str = "") -> dict[str, str]:
    """The hidden fields of the first form whose address ends in ``action``."""
    form = re.search(rf'<form[^>]*{action}"?[^>]*>(.*?)</form>', page, re.DOTALL)
    assert form is not None, page
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[1]))


class Proposer(threading.Thread):
    """An agent that proposes one refund after the other, and notes what was acknowledged."""

    def __init__(self, client: httpx.Client) -> None:
        super().__init__(daemon=True)
        self.client, self.stop = client, threading.Event()
        self.acknowledged: list[str] = []
        self.failures: list[str] = []

    def run(self) -> None:
        with self.client:
            while not self.stop.is_set():
                self._propose()

    def _propose(self) -> None:
        try:
            self.acknowledged.append(propose(self.client)["transaction_id"])
        except httpx.HTTPError as failure:
            self.failures.append(repr(failure))
            self.stop.wait(0.2)


@contextmanager
def installed(
    database: str, owner: str, *processes: str, **environment: str
) -> Iterator[Installation]:
    """Set up on an empty database, with these processes running."""
    installation = Installation(database, owner)
    installation.environment |= environment
    try:
        installation.set_up()
        installation.start(*processes)
        yield installation
    finally:
        installation.stop()
