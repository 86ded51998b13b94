"""One whole installation: engines, every kind of process, the outside, and a network between all.

On one machine each kind of process reaches PostgreSQL, Redis and the outside through a link of its
own (``links``). The commands are those of ``make up`` (``approvals.processes``).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approvals import processes
from approvals.local.database_passwords import as_role
from approvals.processes import Process, environment_of
from bench.chaos import engines
from bench.chaos.disk import Disk, no_disk, small_disk
from bench.chaos.links import Links
from bench.chaos.programs import Program

if TYPE_CHECKING:
    from bench.chaos.hosts import Hosts

ROOT = Path(__file__).resolve().parents[2]
LEASE_S = 3.0
KINDS = ("web", "worker", "courier", "sweeper")  # each has links of its own
SERVICES = ("postgres", "redis", "outside")
AGENTS = ("ada", "ben", "cleo", "dan", "eve", "finn")
PEOPLE = {"alice": "approver", "bob": "approver", "carla": "approver", "olga": "operator"}
KEYS = {
    "ASSENT_SECRET_KEY": "only for a storm, and long enough to be accepted by the checks",
    "ASSENT_CHANNELS_KEY": "77" * 32,
    "ASSENT_AUDIT_KEY": "11" * 32,
    "ASSENT_CARD_KEY": "22" * 32,
    "ASSENT_PUSH_KEY": "33" * 32,
    "ASSENT_TOOL_KEY": "55" * 32,
    "ASSENT_PERMIT_KEY": "66" * 32,
    "ASSENT_ENCRYPTION_KEYS": "44" * 32,
}


@dataclass
class Installation:
    """Running processes, their addresses, and who may sign in. The storm's faults act on it."""

    folder: Path
    programs: dict[str, Program] = field(default_factory=dict)
    webs: list[str] = field(default_factory=list)  # addresses, the agents take turns
    tokens: dict[str, str] = field(default_factory=dict)  # by the name of the agent
    people: dict[str, dict[str, str]] = field(default_factory=dict)  # principal and session
    owner_url: str = ""  # of the database, not through any link
    outside_url: str = ""
    redis_url: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    links: Links | None = None
    hosts: Hosts | None = None  # of their own, with a network between them
    disk: Disk = field(default_factory=no_disk)

    def of_kind(self, kind: str) -> list[Program]:
        return [each for name, each in self.programs.items() if name.partition("-")[0] == kind]

    def mood(self, name: str, seconds: float) -> None:
        """Make the outside treat its callers in this way for so long."""
        import httpx

        body = {"mood": name, "seconds": seconds}
        httpx.post(f"{self.outside_url}/mood", json=body, timeout=2, trust_env=False)


def start(
    folder: Path, stack: ExitStack, *, disk: str = "1200M", **postgres_settings: str
) -> Installation:
    """Start everything on this machine; ``stack`` stops it. ``disk`` is PostgreSQL's size."""
    here = Installation(folder)
    ports = {name: free_port() for name in (*SERVICES, "web-1", "web-2")}
    here.disk = small_disk(folder, stack, disk)
    _start_engines(here, ports, stack, postgres_settings)
    names = {f"{kind} {service}": service for kind in KINDS for service in SERVICES}
    here.links = Links({name: ("127.0.0.1", ports[of]) for name, of in names.items()})
    stack.callback(here.links.stop)
    here.outside_url = f"http://127.0.0.1:{ports['outside']}"
    here.webs = [f"http://127.0.0.1:{ports[name]}" for name in ("web-1", "web-2")]
    here.environment = environment(here.webs[0], {name: _addresses(here, name) for name in KINDS})
    start_outside(here, ports["outside"], stack)
    prepare(here)
    for name, process, options in _product(ports):
        _start_process(here, name, process, options, stack)
    wait_until_up(here)
    return here


def _start_engines(
    here: Installation, ports: dict[str, int], stack: ExitStack, settings: dict[str, str]
) -> None:
    data = here.disk.path / "postgres"
    engines.make_cluster(data)
    log = here.folder / "postgres.log"
    postgres = engines.postgres(data, log, ports["postgres"], **settings)
    redis = engines.redis(here.folder / "redis.log", ports["redis"])
    for program in (postgres, redis):
        keep(here, program, stack)
    engines.wait_for_postgres("127.0.0.1", ports["postgres"])
    engines.make_database("127.0.0.1", ports["postgres"])
    here.owner_url = engines.url("127.0.0.1", ports["postgres"])
    here.redis_url = f"redis://127.0.0.1:{ports['redis']}/0"


def keep(here: Installation, program: Program, stack: ExitStack) -> None:
    here.programs[program.name] = program
    stack.callback(program.stop)
    program.start()


def start_outside(
    here: Installation,
    port: int,
    stack: ExitStack,
    address: str = "127.0.0.1",
    host: Sequence[str] = (),
) -> None:
    file = str(here.folder / "outside.jsonl")
    command = [sys.executable, "-m", "bench.chaos.outside", "--host", address]
    command += ["--port", str(port), "--file", file]
    log = here.folder / "outside.log"
    program = Program("outside", command, dict(os.environ), log, folder=ROOT, host=host)
    keep(here, program, stack)


def _addresses(here: Installation, kind: str) -> dict[str, str]:
    """The addresses at which this kind of process finds the others: its own links."""
    assert here.links is not None
    port = {service: here.links.ports[f"{kind} {service}"] for service in SERVICES}
    return {
        "DATABASE_URL": engines.url("127.0.0.1", port["postgres"], role_of(kind)),
        "REDIS_URL": f"redis://127.0.0.1:{port['redis']}/0",
        "CHAOS_OUTSIDE_URL": f"http://127.0.0.1:{port['outside']}",
    }


def role_of(kind: str) -> str:
    return engines.LOG if kind == processes.SWEEPER.name else engines.APPLICATION


def environment(public_url: str, addresses: dict[str, dict[str, str]]) -> dict[str, str]:
    """Of every process; the addresses of each kind are under its name, see ``_addresses``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSENT_")}
    return {
        **kept,
        **KEYS,
        "DJANGO_SETTINGS_MODULE": "approvals.settings",
        "ASSENT_TOOL_APPS": "bench.chaos",
        "ASSENT_PUBLIC_URL": public_url,
        "ASSENT_LEASE_S": str(LEASE_S),
        "ASSENT_CHECKPOINT_EVERY_S": "3",
        "ASSENT_WEBHOOK_NETWORKS": "127.0.0.0/8,10.0.0.0/8",
        "ASSENT_LONG_POLLS": "20",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ROOT),
        "CHAOS_ADDRESSES": json.dumps(addresses),
    }


def of_kind(here: Installation, process: Process) -> dict[str, str]:
    """The environment of one kind of process: its own addresses, and no secrets of others."""
    addresses = json.loads(here.environment["CHAOS_ADDRESSES"])
    return environment_of(process, here.environment | addresses[process.name])


def _product(ports: dict[str, int]) -> list[tuple[str, Process, list[str]]]:
    webs = [
        (name, processes.WEB, web_options("127.0.0.1", ports[name])) for name in ("web-1", "web-2")
    ]
    return [
        *webs,
        ("worker-1", processes.WORKER, []),
        ("worker-2", processes.WORKER, []),
        ("courier", processes.COURIER, []),
        ("sweeper-1", processes.SWEEPER, []),
        ("sweeper-2", processes.SWEEPER, []),
    ]


def web_options(host: str, port: int) -> list[str]:
    return ["--host", host, "--port", str(port), "--log-level", "warning", "--workers", "1"]


def _start_process(
    here: Installation, name: str, process: Process, options: list[str], stack: ExitStack
) -> None:
    command = [sys.executable, *process.command, *options]
    log = here.folder / f"{name}.log"
    keep(here, Program(name, command, of_kind(here, process), log, folder=ROOT), stack)


def prepare(here: Installation) -> None:
    """Migrate, and make tenant, people and agents: as ``manage.py`` in a process of its own."""
    environment = here.environment | {
        "ASSENT_OWNER_DATABASE_URL": here.owner_url,
        "ASSENT_LOG_DATABASE_URL": as_role(here.owner_url, engines.LOG),
        "DATABASE_URL": as_role(here.owner_url, engines.APPLICATION),
        "REDIS_URL": here.redis_url,
    }
    engines.run_manage(environment, "migrate", "--noinput", "-v", "0")
    script = "from bench.chaos import people; people.make()"
    made = engines.run_manage(
        environment | {"CHAOS_WEBHOOKS": f"{here.outside_url}/webhooks"},
        "shell",
        "-v",
        "0",
        "-c",
        script,
    )
    answer: dict[str, Any] = json.loads(made.strip().splitlines()[-1])
    here.tokens, here.people = answer["tokens"], answer["people"]


def wait_until_up(here: Installation, seconds: float = 90) -> None:
    """Until every web process answers. Raises ``TimeoutError``."""
    import httpx

    def answers(address: str) -> bool:
        try:
            return httpx.get(f"{address}/sign-in/", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    for address in here.webs:
        until(lambda: answers(address), seconds, f"{address} answers")  # noqa: B023


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for it. Raises ``TimeoutError``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
