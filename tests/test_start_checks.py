"""A process that would not be safe does not start, and says why and how to mend it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.db import connection

from ledger.foundation.postgres import too_many_sessions
from ledger.workers import start_checks
from tests.processes import ROOT

LONG = "a secret key that is long enough to be accepted by the checks"


@pytest.fixture
def deployed(settings):
    """Settings of a deployment that are in order; for any process but the sweeper."""
    settings.PUBLIC_URL = settings.LIVE_URL = "https://assent.example"
    settings.ALLOWED_HOSTS = ["assent.example"]
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = LONG, []
    settings.DEBUG, settings.AUDIT_KEY = False, ""
    settings.CARD_KEYS, settings.PUSH_KEYS = ["22" * 32], ["33" * 32]
    settings.CHANNELS_KEYS = ["77" * 32]
    settings.ENCRYPTION_KEYS, settings.WEBHOOK_NETWORKS = ["44" * 32], ["10.1.0.0/16"]
    return settings


def ids(role="web"):
    return {danger.id.removeprefix("assent.") for danger in start_checks.dangers(role)}


def test_a_deployment_in_order_has_nothing_to_say(deployed):
    assert ids() == set()


@pytest.mark.parametrize(
    ("name", "value", "id_"),
    [
        ("DEBUG", True, "E001"),
        ("PUBLIC_URL", "http://assent.example", "E002"),
        ("LIVE_URL", "http://live.assent.example", "E002"),
        ("ALLOWED_HOSTS", ["assent.example", "*"], "E003"),
        ("SECRET_KEY", "", "E004"),
        ("SECRET_KEY", "short", "E004"),
        ("SECRET_KEY", "a" * 64, "E004"),
        ("SECRET_KEY_FALLBACKS", ["short"], "E004"),
        ("ENCRYPTION_KEYS", [], "E005"),
        ("CHANNELS_KEYS", [], "E017"),
        ("AUDIT_KEY", "11" * 32, "E007"),
        ("ENCRYPTION_KEYS", ["44" * 16], "E008"),
        ("CARD_KEYS", ["not hexadecimal"], "E008"),
        ("CHANNELS_KEYS", ["55" * 31], "E008"),
        ("PUSH_KEYS", ["22" * 32], "E009"),
        ("WEBHOOK_NETWORKS", ["10.1.0.1/16"], "E010"),
        ("WEBHOOK_NETWORKS", ["everything"], "E010"),
        ("WEBHOOK_PORTS", ["443", "https"], "E011"),
        ("HUMANLAYER_TTL_S", 59.0, "E016"),
        ("HUMANLAYER_TTL_S", float("nan"), "E016"),
        ("TASK_RETENTION_DAYS", 0.0, "E012"),
        ("TASK_RETENTION_DAYS", 36_501.0, "E012"),
        ("TASK_RETENTION_DAYS", float("nan"), "E012"),
        ("CARD_KEYS", [], "W001"),
    ],
)
def test_each_danger_is_named(deployed, name, value, id_):
    setattr(deployed, name, value)

    (danger,) = start_checks.dangers("web")

    assert danger.id == f"assent.{id_}"
    assert danger.hint


def test_a_process_is_asked_only_for_the_keys_that_it_uses(deployed):
    deployed.SECRET_KEY, deployed.CARD_KEYS, deployed.PUSH_KEYS = "", [], []
    deployed.AUDIT_KEY = ""

    assert ids("web") == {"E004", "W001"}
    assert ids("courier") == {"E004", "W001"}
    assert ids("slack") == {"E004"}
    assert ids("worker") == set()
    assert ids("bus") == set()


def test_the_sweeper_needs_the_key_that_nobody_else_may_have(deployed):
    assert ids("sweeper") == {"E006"}
    deployed.AUDIT_KEY = "11" * 32
    assert ids("sweeper") == set()
    assert {role: ids(role) for role in ("web", "worker", "slack")} == {
        "web": {"E007"},
        "worker": {"E007"},
        "slack": {"E007"},
    }


def test_on_this_machine_alone_much_is_allowed(deployed):
    deployed.PUBLIC_URL = deployed.LIVE_URL = "http://localhost:8000"
    deployed.DEBUG, deployed.SECRET_KEY, deployed.ALLOWED_HOSTS = True, "short", ["*"]

    assert ids() == set()
    deployed.WEBHOOK_NETWORKS = ["everything"]
    assert ids() == {"E010"}


PROCESSES = {
    "web": ["-c", "import approvals.asgi"],
    "courier": ["manage.py", "work"],
    "sweeper": ["manage.py", "sweep"],
    "slack": ["manage.py", "slack_listen"],
}


@pytest.mark.slow
@pytest.mark.parametrize("role", PROCESSES)
def test_every_process_asks_before_it_begins(role):
    environment = os.environ | {
        "ASSENT_PUBLIC_URL": "https://assent.example",
        "ASSENT_SECRET_KEY": "short",
        "ASSENT_ALLOWED_HOSTS": "*",
        "ASSENT_SLACK_APP_TOKEN": "xapp-1",
    }

    ended = subprocess.run(
        [sys.executable, *PROCESSES[role]],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert ended.returncode == 78
    assert f"Assent's {role} does not start" in ended.stderr
    assert "ASSENT_ALLOWED_HOSTS is *" in ended.stderr
    assert "secret key" in ended.stderr


@pytest.mark.slow
def test_no_process_starts_whose_installation_may_open_more_sessions_than_there_are(db):
    environment = os.environ | {"ASSENT_DATABASE_POOL": "500", "ASSENT_AUDIT_KEY": ""}

    worker = subprocess.run(
        [sys.executable, "manage.py", "work"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert worker.returncode == start_checks.EXIT_UNSAFE
    assert "1 web x 501 (501)" in worker.stderr
    assert "ASSENT_DATABASE_POOL" in worker.stderr


def test_a_stated_number_of_sessions_counts_instead_of_what_postgresql_says(db, settings):
    assert too_many_sessions(connection) is None

    settings.DATABASE_SESSIONS = 60

    assert "there are 60" in (too_many_sessions(connection) or "")


def test_a_courier_counts_with_all_its_sessions_and_a_worker_with_its_own(db, settings):
    settings.DATABASE_SESSIONS, settings.WEB_PROCESSES, settings.DATABASE_POOL = 100, 1, 20
    settings.WORKER_PROCESSES, settings.COURIER_PROCESSES = 8, 2

    assert too_many_sessions(connection) is None
    settings.WORKER_PROCESSES, settings.COURIER_PROCESSES = 1, 8
    assert "8 couriers x 10 (80)" in (too_many_sessions(connection) or "")


def test_the_process_of_the_buses_needs_the_git_program(deployed, monkeypatch, tmp_path):
    assert ids("bus") == set()

    monkeypatch.setenv("PATH", str(tmp_path))

    assert ids("bus") == {"E015", "W002"}
    assert ids("web") == set(), "others run no git"


def test_an_old_git_is_refused(deployed, monkeypatch, tmp_path):
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.30.2\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    (danger,) = start_checks.dangers("bus")

    assert (danger.id, danger.msg) == ("assent.E015", "git 2.30 is too old.")


def test_folders_of_this_host_as_buses_are_for_tries_only(deployed):
    deployed.GIT_BUS_LOCAL = True

    assert ids("bus") == {"W003"}


def test_the_buses_count_with_a_session_for_each_turn(db, settings):
    settings.DATABASE_SESSIONS, settings.BUS_PROCESSES = 60, 3

    assert "3 git bus x 4 (12)" in (too_many_sessions(connection) or "")
