"""Several participants push into one repository at the same time."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest
from django.db import connections

from a2a import tasks
from a2a.doors.git_bus import listening, passes
from a2a.doors.git_bus.models import BusMethod, BusRequest, GitBus, Progress
from a2a.models import Task
from a2a.states import TaskState
from ledger.execution import crash_points
from ledger.models import Agent, Tenant
from ledger.principals import Surface

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

REQUESTS = 200


@pytest.fixture
def other_bus(participant, buses, consolidate):
    """Another organisation's Assent on the same repository, with the same method."""
    tenant = Tenant.objects.create(slug="globex", name="Globex")
    agent = Agent.objects.create(tenant=tenant, slug="clerk", name="Clerk")
    consolidate.pk, consolidate.agent = None, agent
    consolidate.save(force_insert=True)
    made = buses(tenant, participant, "rival")
    BusMethod.objects.create(bus=made.row, method="consolidate", skill=consolidate.slug)
    return made


def submit_many(participant, number: int) -> None:
    for count in range(number):
        request = {
            "jsonrpc": "2.0",
            "method": "consolidate",
            "params": {"transcripts": [str(count)]},
            "id": f"r-{count:03}",
            "sender_id": "human",
            "timestamp": "2026-11-22T10:00:00Z",
        }
        participant.write(f"inbox/r-{count:03}.json", json.dumps(request))
    participant.push("All of them")


@pytest.mark.timeout(900)
def test_two_organisations_work_on_each_request_once(bus, other_bus, participant, settings):
    bus.turn()
    other_bus.turn()
    submit_many(participant, REQUESTS)
    failures: list[BaseException] = []
    answered = BusRequest.objects.filter(progress=Progress.DONE, task__isnull=False)

    def serve(own) -> None:
        try:
            while answered.count() < REQUESTS:
                own.turn()
                finish_all(own)
        except BaseException as failure:
            failures.append(failure)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=serve, args=[own]) for own in (bus, other_bus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(800)

    assert failures == []
    participant.pull()
    log = Counter(line for line in participant.log() if line.startswith("Processed"))
    assert log == {f"Processed r-{count:03}": 1 for count in range(REQUESTS)}
    assert len(participant.names("archive")) == REQUESTS
    assert participant.names("inbox") == participant.names("processing") == []
    done = Counter(Task.objects.values_list("input__transcripts__0", flat=True))
    assert done == {str(count): 1 for count in range(REQUESTS)}
    assert participant.git("log", "--merges", "--format=%H") == ""
    assert not GitBus.objects.filter(rewritten_at__isnull=False).exists()
    shares = Counter(Task.objects.values_list("tenant", flat=True))
    assert len(shares) == 2, shares


def finish_all(own) -> None:
    """The tenant's worker completes what the bus has taken."""
    waiting = Task.objects.filter(tenant=own.row.agent.tenant_id, state=TaskState.SUBMITTED)
    for task in waiting.select_related("skill__agent"):
        worker = task.skill.agent.principal
        tasks.claim_task(task.pk, by=worker, via=Surface.REST)
        result = {"summary": "Done."}
        tasks.finish(task.pk, by=worker, via=Surface.REST, result=result, artifacts=[])


@pytest.mark.parametrize("line", ["Claimed r-1", "Processed r-1"])
def test_a_push_that_comes_second_is_made_again_upon_the_first(
    bus, participant, work, monkeypatch, line
):
    """Somebody else's commit about another request arrives just before ours."""
    participant.submit("r-1")
    if line.startswith("Processed"):
        bus.turn()
        work(Task.objects.get())
    others = iter([f"o-{count}" for count in range(3)])

    def be_first(point: str) -> None:
        if point == "bus commit made" and (name := next(others, None)):
            participant.submit(name, method="astrology.chart")

    monkeypatch.setattr(crash_points, "hook", be_first)
    monkeypatch.setattr(passes, "PAUSE_S", 0.01)
    assert bus.turn().error == ""

    participant.pull()
    assert len([one for one in participant.log() if one.startswith(line)]) == 1
    assert len(participant.names("inbox")) == 3


def test_who_claims_first_has_it(bus, participant, monkeypatch):
    participant.submit("r-1")
    bus.turn()
    participant.submit("r-2")

    def be_first(point: str) -> None:
        if point == "bus commit made" and "r-2.json" in participant.names("inbox"):
            participant.git("mv", "inbox/r-2.json", "processing/r-2.json")
            participant.push("Claimed r-2 by ann")

    monkeypatch.setattr(crash_points, "hook", be_first)
    bus.turn()

    assert bus.request("r-2").progress == Progress.ELSEWHERE
    assert bus.request("r-2").task is None


def test_an_answer_that_somebody_else_published_is_never_overwritten(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    participant.pull()
    participant.write("outbox/res_r-1.json", '{"id": "r-1", "result": {}, "error": null}')
    participant.push("I was faster")
    work(Task.objects.get())
    bus.turn()

    assert bus.response("r-1") == {"id": "r-1", "result": {}, "error": None}
    row = bus.request("r-1")
    assert (row.progress, row.problem[:40]) == (
        Progress.PROBLEM,
        "Somebody else has published an answer be",
    )


def test_two_processes_never_serve_one_bus_at_once(bus, participant, monkeypatch):
    participant.submit("r-1")
    served = []

    def serve() -> None:
        due = list(GitBus.objects.filter(listening.DUE).values_list("pk", flat=True))
        served.append(len(due))
        for pk in due:
            listening.serve(pk)
        connections.close_all()

    def serve_too(point: str) -> None:
        if point == "bus commit made":
            GitBus.objects.filter(pk=bus.row.pk).update(look_at="2020-01-01T00:00Z")
            monkeypatch.setattr(crash_points, "hook", lambda name: None)
            thread = threading.Thread(target=serve)
            thread.start()
            thread.join()

    monkeypatch.setattr(crash_points, "hook", serve_too)
    bus.turn()

    assert served == [0]


def test_a_process_that_lost_its_hold_pushes_nothing_more(bus, participant, monkeypatch):
    participant.submit("r-1")

    def lose(point: str) -> None:
        if point == "bus commit made":
            GitBus.objects.filter(pk=bus.row.pk).update(hold=bus.row.hold + 100)

    bus.turn()
    participant.submit("r-2")
    participant.submit("r-3")
    monkeypatch.setattr(crash_points, "hook", lose)
    bus.turn()

    assert len(participant.names("processing")) == 2, "r-1, and the one of the last push"
