"""The shell scripts of examples/git_participant: by themselves, and with us, both ways."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from a2a.doors.git_bus.models import BusMethod, Progress
from a2a.models import Skill, Task
from a2a.states import TaskState
from tests.agents_at_work import GOOD_RESULT
from tests.processes import ROOT

SCRIPTS = ROOT / "examples" / "git_participant"
COUNT = ["sh", str(SCRIPTS / "count_words.sh")]


def run(script: str, *arguments: object) -> str:
    command = ["sh", SCRIPTS / script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def clone_of(repository: Path, folder: Path) -> Path:
    subprocess.run(["git", "clone", "-q", repository, folder], check=True, capture_output=True)
    for name, value in (("user.name", folder.name), ("user.email", f"{folder.name}@x.example")):
        subprocess.run(["git", "config", name, value], cwd=folder, check=True)
    return folder


def pulled(clone: Path) -> Path:
    subprocess.run(["git", "pull", "-q", "--rebase"], cwd=clone, check=True)
    return clone


def log_of(clone: Path) -> list[str]:
    command = ["git", "log", "--format=%s"]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run("new_bus.sh", tmp_path / "bus.git")
    return tmp_path / "bus.git"


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Path:
    return clone_of(repository, tmp_path / "shell")


def response(clone: Path, request_id: str) -> dict:
    return json.loads((pulled(clone) / f"outbox/res_{request_id}.json").read_text())


def test_a_request_is_claimed_done_answered_and_archived(clone):
    request_id = run("send.sh", clone, "human", "text.count_words", '{"text": "a b c"}')

    assert run("take.sh", clone, "shell_agent", "text.count_words", *COUNT)

    assert response(clone, request_id) == {
        "jsonrpc": "2.0",
        "result": {"summary": "3 words were counted.", "words": 3},
        "error": None,
        "id": request_id,
        "processed_by": "shell_agent",
    }
    assert (clone / f"archive/{request_id}.json").exists()
    assert log_of(clone)[:2] == [
        f"Processed {request_id}",
        f"Claimed {request_id} by shell_agent",
    ]
    assert run("take.sh", clone, "shell_agent", "text.count_words", *COUNT) == "", "nothing left"


def test_the_ten_lines_of_the_documentation_do_it_too(clone):
    page = (ROOT / "docs" / "git-bus.md").read_text()
    (lines,) = re.findall(r"```sh\n(git fetch.*?)```", page, re.DOTALL)
    request_id = run("send.sh", clone, "human", "text.count_words", '{"text": "a b"}')
    work = f"my_work() {{ {' '.join(COUNT)}; }}"
    script = f"set -eu\nagent=doc_agent method=text.count_words\n{work}\n{lines}"

    subprocess.run(["sh", "-c", script], cwd=clone, check=True, timeout=60)

    answer = response(clone, request_id)
    assert (answer["result"]["words"], answer["processed_by"]) == (2, "doc_agent")
    assert log_of(clone)[0] == f"Processed {request_id}"


def test_requests_for_others_stay_where_they_are(clone):
    request_id = run("send.sh", clone, "human", "facts.consolidate", "{}")

    assert run("take.sh", clone, "shell_agent", "text.count_words", *COUNT) == ""

    assert (pulled(clone) / f"inbox/{request_id}.json").exists()


def test_work_that_fails_is_answered_with_an_error(clone):
    request_id = run("send.sh", clone, "human", "text.count_words", "{}")

    run("take.sh", clone, "shell_agent", "text.count_words", "false")

    answer = response(clone, request_id)
    assert (answer["result"], answer["error"]["code"]) == (None, -32603)


def test_a_pass_that_died_after_its_claim_is_repeated_by_the_same_agent_only(clone):
    request_id = run("send.sh", clone, "human", "text.count_words", '{"text": "a"}')
    die = ["sh", "-c", "kill -9 $PPID"]
    command = ["sh", SCRIPTS / "take.sh", clone, "shell_agent", "text.count_words", *die]
    assert subprocess.run(command, capture_output=True).returncode == -9
    assert (clone / f"processing/{request_id}.json").exists()

    assert run("take.sh", clone, "other_agent", "text.count_words", *COUNT) == ""
    assert run("take.sh", clone, "shell_agent", "text.count_words", *COUNT)

    assert response(clone, request_id)["result"]["words"] == 1


def test_of_two_clones_that_race_one_works_on_each_request(clone, repository, tmp_path):
    clones = [clone, clone_of(repository, tmp_path / "second")]
    # Both have their participant files, or these would be what is pushed at the same time.
    for number, each in enumerate(clones):
        run("take.sh", each, f"agent_{number}", "text.count_words", *COUNT)
    ids = {run("send.sh", clone, "human", "text.count_words", '{"text": "a"}') for _ in range(6)}
    note = ["sh", "-c", f"echo done >> {tmp_path}/worked; exec {' '.join(COUNT)}"]

    for _ in range(12):
        passes = [
            subprocess.Popen(
                ["sh", SCRIPTS / "take.sh", each, f"agent_{n}", "text.count_words", *note],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for n, each in enumerate(clones)
        ]
        for each in passes:
            each.wait(60)

    processed = Counter(line for line in log_of(pulled(clone)) if line.startswith("Processed"))
    assert processed == {f"Processed {request_id}": 1 for request_id in ids}
    assert len((tmp_path / "worked").read_text().splitlines()) == len(ids), "each worked on once"


@pytest.mark.django_db
def test_the_shell_asks_us_and_we_ask_the_shell(
    clone, repository, participant, bus, work, ask_for_draft
):
    bus.set(url=str(repository))
    BusMethod.objects.filter(skill="draft").update(method="text.count_words")
    asked = run("send.sh", clone, "human_pm", "consolidate", '{"transcripts": ["one"]}')
    sent = ask_for_draft(input={"text": "one two three"})

    bus.turn()

    work(Task.objects.get(skill_slug="consolidate"))
    assert run("take.sh", clone, "shell_agent", "text.count_words", *COUNT)
    bus.turn()

    assert response(clone, asked)["result"] == GOOD_RESULT
    sent.refresh_from_db()
    assert (sent.state, sent.result["words"]) == (TaskState.COMPLETED, 3)
    row = bus.request(bus.sent(sent))
    assert (row.progress, row.processed_by) == (Progress.DONE, "shell_agent")
    assert Skill.objects.get(slug="draft").agent == bus.row.agent
    assert {f"Processed {asked}", f"Processed {row.request_id}"} <= set(log_of(pulled(clone)))
