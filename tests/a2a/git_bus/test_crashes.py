"""The process of a bus dies -9 at any line; the next one goes on, and nothing is done twice."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from django.conf import settings

from a2a.doors.git_bus.models import Progress
from a2a.models import Task
from a2a.states import TaskState
from tests.agents_at_work import GOOD_RESULT
from tests.processes import ROOT, Product

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def dies_at(bus):
    """A turn in a process of its own, which is killed at the given line."""

    def run(line: str) -> None:
        environment = Product().environment | {
            "ASSENT_TEST_KILL_AT": line,
            "ASSENT_GIT_BUS_LOCAL": "1",
            "ASSENT_GIT_BUS_FOLDER": settings.GIT_BUS_FOLDER,
        }
        agent = f"{bus.row.agent.tenant_id}/{bus.row.agent.slug}"
        command = [sys.executable, "manage.py", "bus", "pass", agent]
        process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert process.returncode == -signal.SIGKILL, process.stderr

    return run


@pytest.mark.parametrize(
    "line", ["bus commit made", "bus commit pushed", "bus claimed", "bus task entered"]
)
def test_while_it_takes_a_request(bus, participant, work, dies_at, line):
    bus.turn()
    participant.submit("r-1")
    dies_at(line)
    bus.turn()

    task = Task.objects.get()
    work(task)
    bus.turn()
    assert bus.response("r-1")["result"] == GOOD_RESULT
    assert sorted(participant.log()).count("Claimed r-1 by assent_partner") == 1
    assert participant.log().count("Processed r-1") == 1


@pytest.mark.parametrize("line", ["bus commit made", "bus commit pushed", "bus answer pushed"])
def test_while_it_answers(bus, participant, work, dies_at, line):
    participant.submit("r-1")
    bus.turn()
    work(Task.objects.get())
    dies_at(line)
    bus.turn()

    assert bus.response("r-1")["result"] == GOOD_RESULT
    assert participant.log().count("Processed r-1") == 1
    assert bus.request("r-1").progress == Progress.DONE


@pytest.mark.parametrize("line", ["bus commit made", "bus commit pushed", "bus request pushed"])
def test_while_it_sends(bus, participant, ask_for_draft, dies_at, line):
    bus.turn()
    task = ask_for_draft()
    dies_at(line)
    bus.turn()

    assert participant.names("inbox") == [f"{bus.sent(task)}.json"]
    assert participant.log().count(f"Submitted {bus.sent(task)}") == 1
    assert task.bus_request.progress == Progress.SENT


def test_while_it_reads_an_answer(bus, participant, ask_for_draft, dies_at):
    task = ask_for_draft()
    bus.turn()
    participant.answer(bus.sent(task), result={"text": "Tea."})
    dies_at("bus answer read")
    bus.turn()

    task.refresh_from_db()
    assert (task.state, task.result) == (TaskState.COMPLETED, {"text": "Tea."})
