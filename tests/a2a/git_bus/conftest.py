"""A bare repository on this machine, one of our buses on it, and a plain participant's clone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from a2a import submissions, tasks
from a2a.doors.git_bus import listening
from a2a.doors.git_bus.models import BusMethod, BusRequest, GitBus, Strangers
from a2a.models import Skill, Task
from a2a.submissions import Submission
from ledger.agents.callers import Caller
from ledger.models import Agent
from ledger.principals import Surface
from tests.agents_at_work import GOOD_INPUT, GOOD_RESULT

FOLDERS = ("inbox", "processing", "outbox", "archive", ".well-known/agents", "config")
ENVIRONMENT = {"a2a_environment_version": "1.0", "jsonrpc_version": "2.0"}


# Of the machine, as filters that git-lfs installs for everybody.
WITHOUT_SETTINGS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


class Participant:
    """Somebody who knows nothing of Assent, with git and an editor."""

    def __init__(self, folder: Path, url: Path) -> None:
        self.folder = folder
        self.upstream = url
        subprocess.run(["git", "clone", "-q", url, folder], check=True, capture_output=True)

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@partner.example")
        run = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.folder,
            env={**os.environ, **WITHOUT_SETTINGS},
            check=True,
            capture_output=True,
            text=True,
        )
        return run.stdout

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def push(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        for is_last in (False, False, True):  # others push as well
            if self.git("ls-remote", "origin", "main"):
                self.git("pull", "-q", "--rebase", "origin", "main")
            try:
                self.git("push", "-q", "origin", "HEAD:main")
            except subprocess.CalledProcessError:
                if is_last:
                    raise
            else:
                return

    def pull(self) -> None:
        self.git("pull", "-q", "--ff-only", "origin", "main")

    def submit(
        self, request_id: str, method: str = "consolidate", params: Any = GOOD_INPUT, **more: Any
    ) -> None:
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

    def answer(self, request_id: str, **outcome: Any) -> None:
        """Claim, work and publish in one go, as the protocol's own commits do."""
        self.pull()
        response = {"jsonrpc": "2.0", "result": None, "error": None, "id": request_id}
        response |= {"processed_by": "ann_agent", **outcome}
        self.write(f"outbox/res_{request_id}.json", json.dumps(response))
        self.git("mv", f"inbox/{request_id}.json", f"archive/{request_id}.json")
        self.push(f"Processed {request_id}")

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


@pytest.fixture
def signing(participant: Participant, tmp_path: Path) -> str:
    """The participant signs its commits; the line that allows it to."""
    key = tmp_path / "ann"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for name, value in {
        "gpg.format": "ssh",
        "user.signingkey": str(key),
        "commit.gpgsign": "true",
    }.items():
        participant.git("config", name, value)
    public = key.with_suffix(".pub").read_text().split()
    return f"ann@partner.example {public[0]} {public[1]}"


class Bus:
    """One of our buses, and the process that serves it."""

    def __init__(self, row: GitBus, participant: Participant) -> None:
        self.row, self.participant = row, participant

    def turn(self) -> GitBus:
        """One turn, as the process has it when the bus is due; the row after it."""
        GitBus.objects.filter(pk=self.row.pk).update(look_at=Now(), busy_until=None)
        listening.serve(self.row.pk)
        self.row.refresh_from_db()
        return self.row

    def set(self, **columns: Any) -> None:
        GitBus.objects.filter(pk=self.row.pk).update(**columns)

    def request(self, request_id: str) -> BusRequest:
        return BusRequest.objects.get(bus=self.row, request_id=request_id)

    def sent(self, task: Task) -> str:
        """The id under which the task is in the repository."""
        return BusRequest.objects.get(bus=self.row, task=task).request_id

    def response(self, request_id: str) -> dict[str, Any]:
        self.participant.pull()
        found: dict[str, Any] = json.loads(self.participant.read(f"outbox/res_{request_id}.json"))
        return found


@pytest.fixture
def buses(settings: Any, tmp_path: Path) -> Callable[..., Bus]:
    """Makes buses of a tenant on the participant's repository."""
    settings.GIT_BUS_LOCAL, settings.GIT_BUS_FOLDER = True, str(tmp_path / "buses")

    def make(tenant: Any, participant: Participant, name: str = "partner") -> Bus:
        agent = Agent.objects.create(tenant=tenant, slug=name, name=name.title())
        row = GitBus.objects.create(
            agent=agent,
            url=str(participant.upstream),
            participant=f"assent_{name}",
            strangers=Strangers.ACCEPT,
        )
        return Bus(row, participant)

    return make


@pytest.fixture
def bus(participant: Participant, consolidate: Any, buses: Callable[..., Bus]) -> Bus:
    """Offers the skill ``consolidate`` there."""
    made = buses(consolidate.agent.tenant, participant)
    BusMethod.objects.create(bus=made.row, method="consolidate", skill=consolidate.slug)
    return made


@pytest.fixture
def work(consolidate: Any) -> Callable[..., None]:
    """The worker of the skill claims a task and completes it."""

    def work(task: Task, result: Any = GOOD_RESULT, artifacts: Any = ()) -> None:
        worker = consolidate.agent.principal
        claimed = tasks.claim_task(task.pk, by=worker, via=Surface.REST)
        tasks.finish(claimed.pk, by=worker, via=Surface.REST, result=result, artifacts=artifacts)

    return work


@pytest.fixture
def draft(bus: Bus) -> Skill:
    """A skill of the tenant that is done by whoever takes it on the bus."""
    BusMethod.objects.create(bus=bus.row, method="text.draft", skill="draft", is_ours=False)
    return Skill.objects.create(agent=bus.row.agent, slug="draft", name="Draft a text")


@pytest.fixture
def ask_for_draft(draft: Skill, client_of: Caller) -> Callable[..., Task]:
    def ask(**submission: Any) -> Task:
        wanted = Submission(skill="draft", **{"input": {"topic": "tea"}, **submission})
        return submissions.submit(wanted, caller=client_of, via=Surface.REST).task

    return ask
