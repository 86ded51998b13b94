"""The queue of tasks that Assent begins itself: agents wait for what it prepares."""

from __future__ import annotations

import socket

import pytest

from a2a.models import RemoteAgent, Task
from a2a.states import TaskState
from ledger.execution import roll_back
from ledger.models import Agent, Transaction, Watched
from ledger.workers import jobs
from tests.a2a.test_own_tasks import submit
from tests.processes import running, until
from tests.toolbox.world import world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def a_silent_remote_agent(acme, number: int, port: int) -> RemoteAgent:
    agent = Agent.objects.create(tenant=acme, slug=f"far-{number}", name="Far away")
    url, watched = f"http://127.0.0.1:{port}/", Watched.objects.create(kind="agent_card")
    return RemoteAgent.objects.create(agent=agent, url=url, watched=watched)


def a_task_whose_plan_failed() -> Task:
    """Put back by the request that submitted it, and due again."""

    def fail() -> None:
        raise ConnectionError("cut")

    world.planning = fail
    task = submit()
    for pk in Transaction.objects.values_list("pk", flat=True):  # abandoned, with its operation key
        roll_back(pk)
    Task.objects.update(next_attempt_at=None)
    return task


def test_a_task_is_begun_while_the_courier_waits_for_agents_that_do_not_answer(acme, orchestrator):
    """Its queue is the last of the courier's, and those before it are full."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for number in range(4):
            jobs.enqueue("read_published", a_silent_remote_agent(acme, number, port).watched_id)
        with running("courier", ASSENT_WEBHOOK_NETWORKS="127.0.0.0/8"):
            asked, _ = silent.accept()
            task = a_task_whose_plan_failed()
            jobs.enqueue("begin", task.pk)

            waits = TaskState.AUTH_REQUIRED
            until(lambda: Task.objects.get(pk=task.pk).state == waits, 8, "it waits for sign-off")
            asked.close()
