"""Dumps and point-in-time recovery, by the commands of docs/scaling.md."""

from __future__ import annotations

import shutil

import pytest

from tests.operations.clusters import Cluster, from_the_page, home, shell, until
from tests.operations.installation import Installation, installed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def folder():
    with home() as folder:
        shell('mkdir "$HOME_OF_TEST/archive" "$HOME_OF_TEST/backup"', HOME_OF_TEST=folder)
        yield folder


@pytest.fixture
def log_file(folder):
    """Where the sweeper publishes its checkpoints, outside of the database."""
    return folder / "backup" / "checkpoints"


def committed(desk: Installation, number: int = 1) -> list[str]:
    refunds = [desk.propose() for _ in range(number)]
    for refund in refunds:
        desk.approve(refund)
    for refund in refunds:
        desk.until_state(refund, "committed")
    return refunds


def published(log_file) -> int:
    """How many events the newest published checkpoint covers."""
    lines = log_file.read_text().split("\n\n")
    sizes = [int(note.split("\n")[1]) for note in lines if note.count("\n") >= 2]
    return max(sizes, default=0)


def until_all_is_published(cluster: Cluster, log_file) -> None:
    events = "SELECT count(*) FROM ledger_event"
    until(lambda: log_file.exists() and published(log_file) == cluster.ask(events))


@pytest.mark.parametrize("way", ["whole", pytest.param("data only", marks=pytest.mark.large)])
def test_a_dump_is_restored_into_a_new_server_and_verifies(folder, log_file, way):
    old, new = Cluster(folder, "old").create(), Cluster(folder, "new").create()
    log_file.touch()
    log_file.chmod(0o666)
    with installed(old.url(), old.url("postgres")) as desk:
        desk.environment["ASSENT_LOG_FILE"] = str(log_file)
        desk.start("sandbox", "web", "worker", "sweeper")
        refund, *_ = committed(desk, 2)
        until_all_is_published(old, log_file)
        shell(from_the_page("dump"), OWNER_URL=old.url("postgres"), BACKUP=folder / "backup")
        (dump,) = (folder / "backup").glob("assent-*.dump")
        desk.kill_all()

        desk.move_to(new.url(), new.url("postgres"))
        if way == "data only":
            desk.manage("migrate", "--noinput")
        commands = from_the_page("restore" if way == "whole" else "restore-data")
        superuser = new.url("postgres")
        shell(commands, OWNER_URL=superuser, SUPERUSER_URL=superuser, DUMP=dump)
        desk.manage("migrate", "--noinput")

        assert "no published checkpoint has more" in desk.manage("after_restore")
        proof = desk.manage("verify_ledger", "--full", "--against", str(log_file))
        assert "The ledger is whole" in proof
        desk.start("web", "worker", "sweeper")
        assert desk.state_of(refund) == "committed"
        committed(desk)


@pytest.mark.large
def test_a_moment_is_restored_and_what_came_after_it_is_noticed_and_not_done_twice(
    folder, log_file
):
    archive = from_the_page("archive").replace("/archive", str(folder / "archive"))
    main = Cluster(folder, "main").create(archive)
    owner, backup = main.url("postgres"), folder / "backup"
    log_file.touch()
    log_file.chmod(0o666)
    with installed(main.url(), owner) as desk:
        desk.environment["ASSENT_LOG_FILE"] = str(log_file)
        desk.start("sandbox", "web", "worker", "sweeper")
        [before] = committed(desk)
        shell(from_the_page("replication-role"), SUPERUSER_URL=owner, PASSWORD="a-password")
        shell(from_the_page("base-backup"), REPLICATION_URL=main.url("backup"), BACKUP=backup)
        (base,) = backup.glob("base-*")
        desk.kill("worker")
        signed_off = desk.propose()
        desk.approve(signed_off)
        until_all_is_published(main, log_file)
        moment = main.ask("SELECT clock_timestamp()::text")
        desk.start("worker")
        desk.until_state(signed_off, "committed")
        [unknown] = committed(desk)
        until_all_is_published(main, log_file)
        last = main.ask("SELECT pg_walfile_name(pg_switch_wal())")
        archived = f"SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver"
        until(lambda: main.ask(archived), what="the archive has it")

        desk.kill_all()
        main.kill()
        shutil.rmtree(main.data)
        paths = {"PGDATA": main.data, "ARCHIVE": folder / "archive", "BASE": base}
        shell(from_the_page("recover"), **paths, MOMENT=moment)
        until(lambda: not main.ask("SELECT pg_is_in_recovery()"), what="it is promoted")
        desk.manage("migrate", "--noinput")

        advice = desk.manage("after_restore")
        assert "are lost" in advice
        assert "1 signed-off transactions are in doubt now" in advice
        assert "The ledger is whole" in desk.manage("verify_ledger")
        complaint = desk.manage("verify_ledger", "--against", str(log_file), expect=1)
        assert "published" in complaint

        sent = main.ask("SELECT max(id) FROM ledger_delivery")
        shell(from_the_page("new-ids"), OWNER_URL=owner)
        effects = desk.effects()["by_kind"]["refund"]
        desk.start("web", "worker", "sweeper")
        desk.until_state(signed_off, "committed")
        assert desk.state_of(before) == "committed"
        with desk.agent() as agent:
            assert agent.get(f"/api/v1/transactions/{unknown}").status_code == 404
        assert desk.effects()["by_kind"]["refund"] == effects == 3
        assert main.ask("SELECT max(id) FROM ledger_delivery") > sent + 1_000_000
        until(lambda: "No checkpoint is signed" in desk.log("sweeper"))

        new_log = log_file.with_name("checkpoints-2")
        new_log.touch()
        new_log.chmod(0o666)
        desk.kill("sweeper")
        desk.environment |= {
            "ASSENT_LOG_FILE": str(new_log),
            "ASSENT_LOG_ORIGIN": "assent.example/log-2",
        }
        desk.start("sweeper")
        committed(desk)
        until_all_is_published(main, new_log)
        proof = desk.manage("verify_ledger", "--full", "--against", str(new_log))
        assert "The ledger is whole" in proof
