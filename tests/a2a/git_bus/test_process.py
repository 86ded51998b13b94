"""The process of the git buses, against real repositories and a server that never answers."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now

from a2a.doors.git_bus.models import GitBus
from a2a.doors.git_bus.turns import host_of
from a2a.models import Task
from ledger.models import Agent
from tests.processes import Product, running, until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SOON_S = 10.0


@pytest.fixture
def silent(acme) -> Iterator[GitBus]:
    """A bus whose server accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        agent = Agent.objects.create(tenant=acme, slug="silent", name="Silent")
        url = f"https://127.0.0.1:{server.getsockname()[1]}/bus.git"
        yield GitBus.objects.create(agent=agent, url=url, participant="assent_acme")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Product]:
    environment = {
        "ASSENT_GIT_BUS_LOCAL": "1",
        "ASSENT_GIT_BUS_FOLDER": str(tmp_path / "of-the-process"),
    }
    with running("bus", **environment) as product:
        yield product


def test_a_server_that_hangs_stops_its_own_bus_only(silent, bus, participant, process):
    GitBus.objects.filter(pk=bus.row.pk).update(poll_every=timedelta(seconds=1), look_at=Now())
    until(lambda: GitBus.objects.get(pk=silent.pk).busy_until, 90, "the silent one has its turn")

    participant.submit("r-1", "consolidate", {"transcripts": ["one"]})

    until(Task.objects.exists, 90, "its request is a task")
    assert GitBus.objects.get(pk=silent.pk).busy_until is not None


def test_a_host_of_which_every_repository_hangs_leaves_a_place_to_others(
    silent, bus, participant, process
):
    GitBus.objects.filter(pk=bus.row.pk).update(is_active=False)
    for number in range(4):
        agent = Agent.objects.create(tenant=silent.agent.tenant, slug=f"s{number}", name="Silent")
        GitBus.objects.create(agent=agent, url=silent.url, participant="assent_acme")
    at_work = GitBus.objects.filter(busy_until__isnull=False)
    until(lambda: at_work.count() == 3, 90, "three of them have their turns")

    participant.submit("r-1")
    GitBus.objects.filter(pk=bus.row.pk).update(is_active=True, look_at=Now())

    until(Task.objects.exists, 90, "the request on another host is a task")
    assert at_work.exclude(pk=bus.row.pk).count() == 3


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Git.example:8443/a/b", "git.example"),
        ("ssh://git@git.example/a", "git.example"),
        ("git@Git.example:a/b.git", "git.example"),
        ("/srv/bus.git", ""),
        ("file:///srv/bus.git", ""),
        ("https://[", ""),
    ],
)
def test_the_host_of_each_kind_of_address(url, host):
    assert host_of(url) == host


def test_it_ends_soon_although_a_server_hangs_and_gives_the_bus_back(silent, process):
    until(lambda: GitBus.objects.get(pk=silent.pk).busy_until, 90, "it has its turn")

    os.kill(process.processes["bus"].pid, signal.SIGTERM)

    assert process.processes["bus"].wait(SOON_S) == 0
    silent.refresh_from_db()
    assert silent.busy_until is None
    assert "told to stop" in silent.error


def test_it_ends_while_it_has_nothing_to_do(db, process):
    until(lambda: "Looking" in process.log("bus"), 90, "it looks")

    os.kill(process.processes["bus"].pid, signal.SIGTERM)

    assert process.processes["bus"].wait(SOON_S) == 0


def test_a_bus_whose_secret_cannot_be_read_says_so_and_the_others_go_on(bus, silent, process):
    GitBus.objects.filter(pk=silent.pk).update(is_active=False)
    agent = Agent.objects.create(tenant=silent.agent.tenant, slug="odd", name="Odd")
    odd = GitBus.objects.create(agent=agent, url="/nowhere", participant="assent")
    with_raw_secret(odd.pk)
    GitBus.objects.filter(pk=bus.row.pk).update(look_at=Now())

    def error() -> str:
        return GitBus.objects.without_secrets().get(pk=odd.pk).error

    until(lambda: "not encrypted" in error(), 90, "its error is shown")
    until(lambda: GitBus.objects.get(pk=bus.row.pk).fetched_at, 90, "the other is served")


def with_raw_secret(pk: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE git_bus_gitbus SET deploy_key = 'not encrypted at all' WHERE id = %s", [pk]
        )
