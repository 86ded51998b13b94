"""A bare repository on this machine, one of our buses on it, and a plain participant's clone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from a2a import tasks
from a2a.models import BusMethod, GitBus, Task
from ledger.models import Agent
from ledger.principals import Surface

FOLDERS = ("inbox", "processing", "outbox", "archive", ".well-known/agents", "config")
ENVIRONMENT = {"a2a_environment_version": "1.0", "jsonrpc_version": "2.0"}


class Participant:
    """Somebody who knows nothing of Assent, with git and an editor."""

    def __init__(self, folder: Path, url: Path) -> None:
        self.folder = folder
        subprocess.run(["git", "clone", "-q", url, folder], check=True, capture_output=True)

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@partner.example")
        run = subprocess.run(
            ["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return run.stdout

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def push(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        self.git("push", "-q", "origin", "HEAD:main")

    def pull(self) -> None:
        self.git("pull", "-q", "--ff-only", "origin", "main")

    def submit(self, request_id: str, method: str, params: Any, **more: Any) -> None:
        request = {
            "jsonrpc": "2.0",
            "method": method,
            "params": params,
            "id": request_id,
            "sender_id": "human_pm",
            "timestamp": "2026-11-22T10:00:00Z",
            **more,
        }
        self.write(f"inbox/{request_id}.json", json.dumps(request))
        self.push(f"Submitted {request_id}")

    def names(self, folder: str) -> list[str]:
        self.pull()
        return sorted(p.name for p in (self.folder / folder).glob("*") if p.name != ".gitkeep")

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def log(self) -> list[str]:
        return self.git("log", "--format=%s").splitlines()


@pytest.fixture
def participant(tmp_path: Path) -> Participant:
    upstream = tmp_path / "upstream.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", upstream], check=True)
    first = Participant(tmp_path / "clone", upstream)
    for folder in FOLDERS:
        first.write(f"{folder}/.gitkeep", "")
    first.write("config/a2a-environment.json", json.dumps(ENVIRONMENT))
    first.push("A bus")
    return first


class Bus:
    """One of our buses."""

    def __init__(self, row: GitBus) -> None:
        self.row = row

    def is_due(self) -> None:
        GitBus.objects.filter(pk=self.row.pk).update(look_at=Now())


@pytest.fixture
def bus(participant: Participant, consolidate: Any, settings: Any, tmp_path: Path) -> Iterator[Bus]:
    settings.GIT_BUS_LOCAL, settings.GIT_BUS_FOLDER = True, str(tmp_path / "buses")
    agent = Agent.objects.create(tenant=consolidate.agent.tenant, slug="partner", name="Partner")
    row = GitBus.objects.create(
        agent=agent,
        url=str(participant.folder.parent / "upstream.git"),
        participant="assent_acme",
        strangers="accept",
    )
    BusMethod.objects.create(bus=row, method="consolidate", skill=consolidate.slug)
    return Bus(row)


@pytest.fixture
def complete(consolidate: Any) -> Callable[[Task, Any], None]:
    """The skill's worker claims the task and completes it."""

    def complete(task: Task, result: Any) -> None:
        worker = consolidate.agent.principal
        claimed = tasks.claim_task(task.pk, by=worker, via=Surface.REST)
        tasks.finish(claimed.pk, by=worker, via=Surface.REST, result=result, artifacts=[])

    return complete
