"""``manage.py up``: starts every process of an installation on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from approvals import processes
from approvals.local import Program, Supervisor, embedded_services, old_folder, on_stop_signals
from approvals.processes import EXIT_OTHER_VERSION, Process, environment_of
from ledger.contracts import LONGEST_CALL

ROOT = Path(settings.BASE_DIR)
MCP_COMMANDS_FILE = "ASSENT_MCP_COMMANDS_FILE"
# What a command in another terminal has to know of the running installation, besides its servers.
OF_COMMANDS = (
    "ASSENT_WEBHOOK_NETWORKS",
    "ASSENT_WEBHOOK_PORTS",
    "ASSENT_MCP_COMMANDS",
    MCP_COMMANDS_FILE,
    "ASSENT_TOOL_APPS",
)
LONGEST_JOB_S = 2 * LONGEST_CALL.total_seconds()  # an inquiry, and then a second attempt
TO_RECORD_S = 10.0  # after a call, for its outcome
UP_WITHIN_S = 60.0  # after it the address is printed although nobody answers there
DATABASE_WITHIN_S = 60.0  # after a crash PostgreSQL first repeats its log


@dataclass(frozen=True, slots=True)
class Ports:
    web: int
    sandbox: int
    billing: int


class Command(BaseCommand):
    help = "Starts the whole product: engines, web, workers, sweeper. Ctrl-C stops it."
    requires_system_checks: list[str] = []
    name = "up"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workers", type=int, default=2)
        parser.add_argument(
            "--prepare", action="store_true", help="only migrate, say where it will be, and end"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Start the engines, prepare the database in a process of its own, and supervise.

        This process read its settings before there were engines, so it uses no database itself.
        """
        if options["prepare"]:
            self._migrate()
            self.prepare()
            self.stdout.write(self.banner())
            return
        on_stop_signals(_leave)
        embedded_services.make_keys()
        try:
            with embedded_services.running_services() as started:
                self._run(options["workers"], started)
        except old_folder.OldFolder:
            self.leave_old_folder()
        except (embedded_services.AlreadyRunning, embedded_services.EngineMissing) as refusal:
            raise CommandError(str(refusal)) from refusal

    def _migrate(self) -> None:
        """Waits for a PostgreSQL that starts or recovers, and says so."""
        deadline = time.monotonic() + DATABASE_WITHIN_S
        has_said = False
        while True:
            try:
                call_command("migrate", verbosity=0)
                return
            except OperationalError as failure:
                if time.monotonic() > deadline:
                    raise CommandError(f"PostgreSQL does not answer: {failure}") from failure
                if not has_said:
                    line = str(failure).strip().partition("\n")[0]
                    self.stderr.write(f"Waiting up to a minute for PostgreSQL: {line}")
                    has_said = True
                time.sleep(0.5)

    def leave_old_folder(self) -> None:
        """End, and say how to start anew. The engines have stopped."""
        raise CommandError(old_folder.advice(), returncode=EXIT_OTHER_VERSION)

    def _run(self, workers: int, started: dict[str, str]) -> None:
        """Raises ``OldFolder``."""
        ports, told = free_ports()
        if told:
            self.stdout.write(told)
        environment = os.environ | self.environment(ports)
        told_too = {name: environment[name] for name in OF_COMMANDS if name in environment}
        embedded_services.tell_commands(started | told_too)
        prepared = subprocess.run(
            [sys.executable, "manage.py", self.name, "--prepare"],
            cwd=ROOT,
            env=environment_of(None, environment) | environment_of(processes.MIGRATE, environment),
            start_new_session=True,  # Ctrl-C is ours: we stop it, and it prints no traceback
            stdout=subprocess.PIPE,
            text=True,
        )
        if prepared.returncode == EXIT_OTHER_VERSION and "DATABASE_URL" in started:
            raise old_folder.OldFolder
        if prepared.returncode != 0:
            sys.exit(prepared.returncode)
        self.stdout.write("Starting. The address comes as soon as it can be opened.")
        welcome = partial(self._say_when_up, prepared.stdout, ports.web)
        threading.Thread(target=welcome, daemon=True).start()
        stages = self.stages(ports, workers, environment)
        Supervisor(stages, is_quiet=True, on_stop=embedded_services.tell_end).run()

    def _say_when_up(self, text: str, port: int) -> None:
        """Print the address and the next steps, below what the start has printed."""
        give_up_at = time.monotonic() + UP_WITHIN_S
        while not _listens(port) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        self.stdout.write(text)
        self.stdout.flush()

    def environment(self, ports: Ports) -> dict[str, str]:
        """Variables for the processes beyond our own environment."""
        address = f"http://localhost:{ports.web}"
        environment = {
            "ASSENT_LOG_FORMAT": os.environ.get("ASSENT_LOG_FORMAT", "plain"),
            "ASSENT_METRICS_FOLDER": os.environ.get("ASSENT_METRICS_FOLDER") or _empty_folder(),
            "ASSENT_PUBLIC_URL": os.environ.get("ASSENT_PUBLIC_URL", address),
            "PYTHONUNBUFFERED": "1",
        }
        if not {"ASSENT_MCP_COMMANDS", MCP_COMMANDS_FILE} & set(os.environ):
            file = embedded_services.HOME / "mcp_commands.json"
            if not file.exists():
                file.write_text("{}\n")
                file.chmod(0o644)
            environment[MCP_COMMANDS_FILE] = str(file)
        # The keys that commands are not given, and so this one neither.
        for name, variable in embedded_services.KEYS.items():
            is_set = {variable, f"{variable}_FILE"} & set(os.environ)
            if variable not in processes.OF_COMMANDS and not is_set:
                environment[variable] = (embedded_services.HOME / name).read_text()
        return environment

    def stages(
        self, ports: Ports, workers: int, environment: dict[str, str]
    ) -> list[list[Program]]:
        """In the order in which they start. What asks for work stops before what does it."""
        serve = ["--host", "127.0.0.1", "--port", str(ports.web)]
        serve += ["--workers-kill-timeout", "2"]
        numbers_of_processes = {
            "ASSENT_WEB_PROCESSES": "2",
            "ASSENT_WORKER_PROCESSES": str(workers),
            "ASSENT_COURIER_PROCESSES": "1",
            "ASSENT_BUS_PROCESSES": "1",
        }
        environment = {**numbers_of_processes, **environment}
        # On Linux each has a socket of its own at this port, and the kernel spreads connections;
        # of processes that share a socket, one would take nearly all.
        asking = [_program(processes.WEB, environment, *serve, name=f"web-{i}") for i in (1, 2)]
        is_socket_mode = settings.SLACK_TRANSPORT == "socket" and settings.SLACK_APP_TOKENS
        if is_socket_mode and apps.is_installed(processes.SLACK.app):
            asking.append(_program(processes.SLACK, environment))
        numbers = range(1, workers + 1)
        # Of all that work, workers alone wait for a call that may take long.
        patience_s = LONGEST_JOB_S + TO_RECORD_S
        worker = replace(_program(processes.WORKER, environment), patience_s=patience_s)
        working = [
            *(_program(processes.SWEEPER, environment, name=f"sweeper-{i}") for i in (1, 2)),
            _program(processes.COURIER, environment),
            *([_program(processes.BUS, environment)] if has_bus() else []),
            *(replace(worker, name=f"worker-{i}") for i in numbers),
        ]
        return [working, asking]

    def prepare(self) -> None:
        """Make everything that has to be there before the processes start."""

    def banner(self) -> str:
        from approvals.people.sign_in import first_start_link

        lines = ["", f"  Assent is at {settings.PUBLIC_URL}", ""]
        if first := first_start_link():
            lines += ["  Nobody has an account yet. Open this link, once:", f"    {first}", ""]
        return "\n".join(lines)


def _program(
    process: Process, environment: dict[str, str], *options: str, name: str = ""
) -> Program:
    return program(
        name or process.name, [*process.command, *options], environment_of(process, environment)
    )


def program(name: str, command: Sequence[str], environment: dict[str, str]) -> Program:
    """A command line for our own Python, run in the project's folder."""
    return Program(name, [sys.executable, *command], environment, ROOT)


def _empty_folder() -> str:
    """For the counts of these processes; of earlier ones there are none."""
    folder = embedded_services.HOME / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return str(folder)


def _leave(number: int, _: object) -> None:
    """A stop signal before the processes run: unwind, which stops the engines, and only once."""
    on_stop_signals(lambda *_: None)
    sys.exit(128 + number)


USUAL_PORT = 8000


def free_ports() -> tuple[Ports, str]:
    """Ports, and a sentence if another one than usual is the address of the pages.

    A port that was asked for is used or refused; for a usual one that is taken, the next free one
    is. Raises ``CommandError``.
    """
    chosen: list[int] = []
    for variable, asked, usual in (
        ("ASSENT_PORT", os.environ.get("ASSENT_PORT"), USUAL_PORT),
        ("ASSENT_SANDBOX_PORT", os.environ.get("ASSENT_SANDBOX_PORT"), 8002),
        ("ASSENT_BILLING_PORT", os.environ.get("ASSENT_BILLING_PORT"), 8003),
    ):
        port = int(asked or usual)
        if asked and not is_free(port):
            raise CommandError(
                f"{variable} is {port}, and another program on this machine listens there: "
                "stop that program, or choose another port."
            )
        while port in chosen or not is_free(port):
            port += 1
        chosen.append(port)
    is_moved = "ASSENT_PORT" not in os.environ and chosen[0] != USUAL_PORT
    told = f"Another program listens at port {USUAL_PORT}, so Assent is at port {chosen[0]}."
    return Ports(*chosen), told if is_moved else ""


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def has_bus() -> bool:
    return apps.is_installed(processes.BUS.app) and shutil.which("git") is not None
