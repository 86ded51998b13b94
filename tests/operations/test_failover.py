"""The primary is killed and its stand-by promoted, by the commands of docs/scaling.md."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest

from tests.operations.clusters import Cluster, from_the_page, home, shell, until
from tests.operations.installation import Installation, Proposer, installed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def folder():
    with home() as folder:
        yield folder


def stand_by_of(primary: Cluster, folder: Path) -> Cluster:
    """A stand-by that has received everything so far."""
    standby = Cluster(folder, "standby")
    commands = from_the_page("stand-by").replace("-w start", f'-o "-p {standby.port}" -w start')
    superuser = primary.url("postgres")
    shell(from_the_page("replication-role"), SUPERUSER_URL=superuser, PASSWORD="a-password")
    replication = primary.url("backup") + "?sslmode=disable"
    shell(commands, PGDATA=standby.data, REPLICATION_URL=replication)
    until(lambda: primary.ask("SELECT count(*) FROM pg_stat_replication") == 1)
    return standby


def both(primary: Cluster, standby: Cluster, user: str) -> str:
    hosts = f"host=127.0.0.1,127.0.0.1&port={primary.port},{standby.port}"
    return f"postgresql://{user}@/assent?{hosts}&target_session_attrs=read-write"


def promote(standby: Cluster) -> None:
    shell(from_the_page("promote"), PGDATA=standby.data)


def test_every_acknowledged_row_survives_with_a_synchronous_stand_by(folder):
    primary = Cluster(folder, "primary").create()
    with installed(primary.url(), primary.url("postgres"), "sandbox") as desk:
        standby = stand_by_of(primary, folder)
        primary.configure(from_the_page("synchronous"))
        primary.reload()
        until(lambda: primary.ask("SELECT sync_state FROM pg_stat_replication") == "sync")
        desk.move_to(both(primary, standby, "assent_app"), both(primary, standby, "postgres"))
        desk.start("web", "worker", "sweeper")
        signed_off = desk.propose()
        agents = [Proposer(desk.agent()) for _ in range(4)]
        for agent in agents:
            agent.start()
        until(lambda: sum(len(agent.acknowledged) for agent in agents) > 40)

        primary.kill()
        assert "takes no writes" in readiness_of(desk)
        before = sum(len(agent.acknowledged) for agent in agents)
        promote(standby)

        until(
            lambda: sum(len(agent.acknowledged) for agent in agents) > before + 20,
            what="agents go on, without a restart",
        )
        assert "database" not in readiness_of(desk)
        for agent in agents:
            agent.stop.set()
            agent.join()
        rows = set(ids(standby))
        assert {pk for agent in agents for pk in agent.acknowledged} <= rows
        desk.approve(signed_off)
        desk.until_state(signed_off, "committed")
        assert "The ledger is whole" in desk.manage("verify_ledger")
        assert desk.effects()["by_kind"] == {"refund": 1}


@pytest.mark.large
def test_an_asynchronous_stand_by_lacks_what_it_had_not_received_and_the_published_log_tells(
    folder,
):
    primary = Cluster(folder, "primary").create()
    log_file = folder / "checkpoints"
    log_file.touch()
    log_file.chmod(0o666)
    with installed(primary.url(), primary.url("postgres"), "sandbox") as desk:
        desk.environment["ASSENT_LOG_FILE"] = str(log_file)
        standby = stand_by_of(primary, folder)
        desk.start("web", "sweeper")
        received = desk.propose()
        until(lambda: received in ids(standby), what="the stand-by has replayed it")
        receiver = standby.ask("SELECT pid FROM pg_stat_wal_receiver")
        os.kill(receiver, signal.SIGSTOP)
        lost = desk.propose()
        events = primary.ask("SELECT count(*) FROM ledger_event")
        until(lambda: f"\n{events}\n" in log_file.read_text(), what="it is published")

        primary.kill()
        desk.kill_all()
        os.kill(receiver, signal.SIGKILL)
        promote(standby)

        desk.move_to(standby.url(), standby.url("postgres"))
        assert received in ids(standby)
        assert lost not in ids(standby)
        assert "are lost" in desk.manage("after_restore")
        desk.manage("verify_ledger", "--against", str(log_file), expect=1)


def readiness_of(desk: Installation) -> str:
    """What ``/readyz`` says is missing, in a process that does not ask for a primary."""
    url = desk.environment["DATABASE_URL"].replace("&target_session_attrs=read-write", "")
    ask = (
        "import asyncio; from approvals import health; print(asyncio.run(health.what_is_missing()))"
    )
    return desk.manage("shell", "-c", ask, DATABASE_URL=url)


def ids(cluster: Cluster) -> list[str]:
    with psycopg.connect(cluster.url("postgres")) as connection:
        return [str(pk) for (pk,) in connection.execute("SELECT id FROM ledger_transaction")]
