#!/usr/bin/env python3
"""Start `make demo` from a copy of the project and carry one refund from proposal to receipt, and a
task to a participant of the git bus and back.

    VENV/bin/python .ci/smoke.py

Uses the virtual environment of the Python that runs it. Exits with 1 and prints the log of the demo
if a step fails or takes too long. Leaves no process and no file behind.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns(
    ".git",
    ".venv*",
    ".assent*",
    "node_modules",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "staticfiles",
)
START_LIMIT_S, STEP_LIMIT_S, STOP_LIMIT_S = 300, 60, 60
REFUND = {
    "tool": "refund_customer",
    "reason": "The lamp arrived broken.",
    "arguments": {"payment_id": "pay_2003", "amount": "5.00", "reason": "broken"},
}


class Failed(Exception):
    """A step did not do what it should, or not in time."""


class Demo:
    """`make demo` in a copy of the project, with ports and engines of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "assent"
        self.log = folder / "demo.log"
        shutil.copytree(ROOT, self.home, ignore=NOT_COPIED, symlinks=True)
        port, sandbox_port, billing_port = free_ports(3)
        self.url = f"http://localhost:{port}"
        settings = ("DATABASE_URL", "REDIS_URL", "MAKEFLAGS", "MAKELEVEL")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in settings and not name.startswith("ASSENT_")
        }
        ports = {
            "ASSENT_PORT": str(port),
            "ASSENT_SANDBOX_PORT": str(sandbox_port),
            "ASSENT_BILLING_PORT": str(billing_port),
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["make", "demo", f"VENV={sys.prefix}"],
                cwd=self.home,
                env=environment | ports,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def until(self, condition: Callable[[], Any], limit_s: float, step: str) -> Any:
        """The first truthy value of ``condition``. Raises ``Failed``."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failed(f"{step}: the demo ended with {self.process.returncode}")
            with suppress(httpx.TransportError):
                if value := condition():
                    return value
            time.sleep(1)
        raise Failed(f"{step}: not within {limit_s} s")

    def stop(self) -> None:
        """As Ctrl-C does: every process of the terminal gets the signal. Raises ``Failed``."""
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"stop: not within {STOP_LIMIT_S} s") from None
        if left := self.command_lines():
            raise Failed(f"stop: still running: {list(left.values())}")

    def kill(self) -> None:
        """Whatever is left, also of the engines, which have sessions of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for _ in range(10):  # what ends may have been about to start another
            for pid in self.command_lines():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def command_lines(self) -> dict[int, str]:
        """The processes that work in this copy; none where there is no /proc."""
        lines = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                folder = os.readlink(entry / "cwd")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if line and (folder.startswith(str(self.home)) or str(self.home) in line):
                lines[int(entry.name)] = line
        return lines


def free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def walk(demo: Demo) -> None:
    """From the page for signing in to the receipt, as an agent and as alice."""
    token_file = demo.home / ".assent" / "demo_agent_token"
    alice = httpx.Client(base_url=demo.url, timeout=20, follow_redirects=True, trust_env=False)
    with alice:
        demo.until(lambda: alice.get("/sign-in/").status_code == 200, START_LIMIT_S, "sign-in page")
        headers = {"Authorization": f"Bearer {token_file.read_text()}"}
        with httpx.Client(
            base_url=f"{demo.url}/api/v1", headers=headers, timeout=20, trust_env=False
        ) as agent:
            proposed = agent.post(
                "/transactions", json=REFUND, headers={"Idempotency-Key": '"smoke"'}
            )
            expect(proposed, 201, "propose")
            path = f"/transactions/{proposed.json()['transaction_id']}"
            sign_in(alice)
            page = alice.get(f"{path}/")
            expect(page, 200, "page of the transaction")
            approved = alice.post(f"{path}/approve", data=form_fields(page.text, f"{path}/approve"))
            expect(approved, 200, "approve")
            ended = demo.until(lambda: settled(agent.get(path)), STEP_LIMIT_S, "commit")
            if ended["ledger_status"] != "succeeded" or not ended["receipt"]:
                raise Failed(f"commit: {ended}")
            over_the_bus(demo, agent)


def over_the_bus(demo: Demo, agent: httpx.Client) -> None:
    """A task that a shell script does, with nothing but a git repository between us."""
    sent = agent.post("/tasks", json={"skill": "count-words", "input": {"text": "one two three"}})
    expect(sent, 201, "send over the bus")
    path = f"/tasks/{sent.json()['task_id']}"

    def ended() -> dict[str, Any] | None:
        answer = agent.get(path)
        task: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        return task if task.get("state") in {"completed", "failed"} else None

    task = demo.until(ended, STEP_LIMIT_S, "answer over the bus")
    if task["state"] != "completed" or task["result"]["words"] != 3:
        raise Failed(f"answer over the bus: {task}")


def settled(answer: httpx.Response) -> dict[str, Any] | None:
    """The transaction once it has ended. Before that, and when told to ask less often: None."""
    if answer.status_code == 429:
        return None
    expect(answer, 200, "transaction")
    transaction: dict[str, Any] = answer.json()
    return transaction if transaction["ended_at"] else None


def sign_in(person: httpx.Client) -> None:
    page = person.get("/sign-in/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    if token is None:
        raise Failed("sign in: the page has no form")
    fields = {"username": "alice", "password": "demo-alice", "csrfmiddlewaretoken": token[1]}
    answer = person.post("/sign-in/", data=fields)
    if answer.status_code != 200 or answer.url.path != "/":
        raise Failed(f"sign in: {answer.status_code} {answer.text[:500]}")


def form_fields(page: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that posts to ``action``."""
    for form in re.findall(r"<form\b.*?</form>", page, re.DOTALL):
        if f'action="{action}' in form:
            inputs = re.findall(r"<input\b[^>]*>", form)
            hidden = [tag for tag in inputs if attribute(tag, "type") == "hidden"]
            return {attribute(tag, "name"): attribute(tag, "value") for tag in hidden}
    raise Failed(f"the page has no form for {action}")


def attribute(tag: str, name: str) -> str:
    value = re.search(rf'\b{name}="([^"]*)"', tag)
    return html.unescape(value[1]) if value else ""


def expect(answer: httpx.Response, status: int, step: str) -> None:
    if answer.status_code != status:
        raise Failed(f"{step}: {answer.status_code} {answer.text[:500]}")


def end_early(number: int, frame: FrameType | None) -> None:
    """On SIGTERM, as `timeout` sends it: fail like a step, so that the demo is stopped as well."""
    raise Failed(f"stopped by signal {number}")


def main() -> int:
    signal.signal(signal.SIGTERM, end_early)
    name = "Python " + ".".join(map(str, sys.version_info[:3]))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assent-smoke-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL gives up its privileges
        demo = Demo(Path(folder))
        try:
            walk(demo)
            demo.stop()
        except Exception as failure:
            print(demo.log.read_text(errors="replace"))
            print(f"Smoke test on {name} failed: {failure!r}", flush=True)
            return 1
        finally:
            demo.kill()
    print(f"Smoke test on {name} passed in {time.monotonic() - began:.0f} s.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
