from __future__ import annotations

import os
import socket
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from approvals import embedded
from approvals.keep_running import SUPERVISOR, end_with_supervisor, identity

ROOT = Path(settings.BASE_DIR)
OUTWARD = (
    "respond",
    "deliver",
    "mirror",
    "fetch_card",
    "begin",
)  # the queues of work that waits for others


@dataclass(frozen=True, slots=True)
class Ports:
    web: int
    sandbox: int


class Command(BaseCommand):
    help = "Starts the whole product: engines, web, live, workers, sweeper. Ctrl-C stops it."
    requires_system_checks: list[str] = []
    with_demo = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workers", type=int, default=2)

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs twice: once to start the engines, then, with their addresses set, for real."""
        if os.environ.get("ASSENT_UNDER_UP") != "1":
            self._start_engines()
            return
        ports = Ports(*(int(os.environ[f"ASSENT_{name}_PORT"]) for name in ("WEB", "SANDBOX")))
        self._run(ports, options["workers"])

    def _start_engines(self) -> None:
        embedded.make_keys()
        try:
            with embedded.running_services():
                ports = free_ports()
                environment = os.environ | self.environment(ports)
                command = [sys.executable, str(ROOT / "manage.py"), *sys.argv[1:]]
                code = _wait_for(command, environment)
        except (embedded.AlreadyRunning, embedded.EngineMissing) as refusal:
            raise CommandError(str(refusal)) from refusal
        sys.exit(code)

    def environment(self, ports: Ports) -> dict[str, str]:
        """What the processes of the product are told."""
        address = "http://localhost"
        return {
            "ASSENT_UNDER_UP": "1",
            SUPERVISOR: identity(os.getpid()),
            "ASSENT_WEB_PORT": str(ports.web),
            "ASSENT_SANDBOX_PORT": str(ports.sandbox),
            "ASSENT_PUBLIC_URL": os.environ.get("ASSENT_PUBLIC_URL", f"{address}:{ports.web}"),
            "PYTHONUNBUFFERED": "1",
        }

    def _run(self, ports: Ports, workers: int) -> None:
        from approvals.crew import Crew

        end_with_supervisor()
        call_command("migrate", verbosity=0)
        self.prepare()
        manager = Crew()
        os.environ.pop(embedded.OWNER_URL, None)
        for_sweeper = take_audit_key()
        for name, command in self.processes(ports, workers).items():
            # `exec`: the shell gives way, so that Ctrl-C reaches the program itself.
            alone = os.environ | (for_sweeper if name == "sweeper" else {})
            manager.add_process(name, f"exec {command}", cwd=str(ROOT), env=alone)
        self.stdout.write(self.banner(ports))
        self.stdout.flush()
        manager.loop()
        sys.exit(0 if manager.returncode in {0, 130, 143} else manager.returncode)

    def processes(self, ports: Ports, workers: int) -> dict[str, str]:
        """Name → command line. Each is started again when it dies."""
        keep = f"{sys.executable} -m approvals.keep_running"
        found = {
            # Pages, REST, A2A and what waits at one origin (docs/decisions/one-origin.md). A
            # thread that waits costs little.
            "web": f"env ASSENT_LONG_POLLS=200 {keep} -m granian --host 127.0.0.1 "
            "--log-level warning --interface asgi --ws --workers 2 --workers-kill-timeout 2 "
            f"--port {ports.web} approvals.asgi:application",
            "sweeper": f"{keep} manage.py sweep",
            # Alone with what waits for others: a receiver that is slow holds up no commit.
            "courier": f"{keep} manage.py work --only {' '.join(OUTWARD)}",
        }
        for number in range(1, workers + 1):
            found[f"worker-{number}"] = f"{keep} manage.py work --but {' '.join(OUTWARD)}"
        if settings.SLACK_TRANSPORT == "socket" and settings.SLACK_APP_TOKENS:
            found["slack"] = f"{keep} manage.py slack_listen"
        return found

    def prepare(self) -> None:
        """What has to be there before the processes start."""

    def banner(self, ports: Ports) -> str:
        from django.contrib.auth.models import User

        lines = ["", f"  Assent is at {os.environ['ASSENT_PUBLIC_URL']}", ""]
        if not User.objects.exists():
            lines += [
                "  Nobody can sign in yet. In another terminal:",
                "    .venv/bin/python manage.py createsuperuser",
                "    .venv/bin/python manage.py invite --tenant acme --user alice --role approver",
                "    .venv/bin/python manage.py issue_token --tenant acme --agent helpdesk",
                "",
            ]
        return "\n".join(lines)


def take_audit_key() -> dict[str, str]:
    """Out of our environment, which every process inherits: only the sweeper signs with it."""
    names = ("ASSENT_AUDIT_KEY", "ASSENT_AUDIT_KEY_FILE")
    return {name: os.environ.pop(name) for name in names if name in os.environ}


def free_ports() -> Ports:
    """The usual ports, or the next free ones."""
    wanted = {
        "web": int(os.environ.get("ASSENT_PORT", "8000")),
        "sandbox": int(os.environ.get("ASSENT_SANDBOX_PORT", "8002")),
    }
    taken: set[int] = set()
    for name, port in wanted.items():
        while port in taken or not is_free(port):
            port += 1
        wanted[name] = port
        taken.add(port)
    return Ports(**wanted)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait_for(command: list[str], environment: dict[str, str]) -> int:
    """Run to the end. Signals are the child's business; we outlive it to stop the engines."""
    import signal
    import subprocess

    child = subprocess.Popen(command, env=environment, start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: child.send_signal(signal.SIGTERM))
    return child.wait()
