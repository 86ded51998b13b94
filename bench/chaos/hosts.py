"""The same installation on several hosts: network namespaces, joined by our own ``switch``.

Two web, three workers, a courier, sweeper and stand-by, database, Redis and the outside have a host
each; the clients are on the machine itself. Takes root on Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from approvals import processes
from bench.chaos import engines, installation
from bench.chaos.disk import small_disk
from bench.chaos.installation import KINDS, ROOT, Installation
from bench.chaos.programs import Program

CLIENTS, PREFIX = "clients", "10.77.0"
HOSTS = {
    CLIENTS: 1,
    "web-1": 11,
    "web-2": 12,
    "worker-1": 21,
    "worker-2": 22,
    "worker-3": 23,
    "courier": 31,
    "sweeper-1": 41,
    "sweeper-2": 42,
    "database": 51,
    "redis": 52,
    "outside": 61,
}
PORTS = {"web": 8000, "database": 5432, "redis": 6379, "outside": 8002}


def why_not() -> str:
    """Why there can be no hosts here; empty if there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces take root on Linux"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    tried = subprocess.run(["ip", "netns", "list"], capture_output=True)
    return "" if tried.returncode == 0 else "`ip netns` does not work here (iproute2)"


class Hosts:
    """The namespaces and the switch; ``cable`` makes the way between two of them bad."""

    def __init__(self, seed: int, stack: ExitStack) -> None:
        self._stack, self._run = stack, f"ac{os.getpid() % 10_000}"
        self.names = [name for name in HOSTS if name != CLIENTS]
        devices = {name: f"{self._run}-{number}" for name, number in HOSTS.items()}
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "bench.chaos.switch", json.dumps(devices), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stack.callback(self._switch.communicate)
        stack.callback(self._switch.kill)
        assert self._switch.stdout is not None
        assert self._switch.stdout.readline() == "ready\n", "the switch did not start"
        for name, device in devices.items():
            self._join(name, device)

    def _join(self, name: str, device: str) -> None:
        prefix: Sequence[str] = ()
        if name != CLIENTS:
            namespace = self.namespace(name)
            _run("ip", "netns", "add", namespace)
            self._stack.callback(_run, "ip", "netns", "del", namespace)
            _run("ip", "link", "set", device, "netns", namespace)
            prefix = self.prefix(name)
            _run(*prefix, "ip", "link", "set", "lo", "up")
        _run(*prefix, "ip", "address", "add", f"{address(name)}/24", "dev", device)
        # Larger frames, fewer of them: each passes through a process in Python.
        _run(*prefix, "ip", "link", "set", device, "mtu", "9000", "up")

    def namespace(self, name: str) -> str:
        return f"{self._run}-{name}"

    def prefix(self, name: str) -> list[str]:
        """Before a command, it runs the command on this host."""
        return ["ip", "netns", "exec", self.namespace(name)]

    def cable(self, source: str, target: str, *, loss: float = 0.0, delay_s: float = 0.0) -> None:
        """The treatment of frames from one host to the other; nothing by default."""
        assert self._switch.stdin is not None
        order = {"from": source, "to": target, "loss": loss, "delay_s": delay_s}
        self._switch.stdin.write(json.dumps(order) + "\n")
        self._switch.stdin.flush()


def address(name: str) -> str:
    return f"{PREFIX}.{HOSTS[name]}"


def start(folder: Path, seed: int, stack: ExitStack) -> Installation:
    """Start everything on its host; ``stack`` stops it and removes the hosts."""
    here = Installation(folder)
    here.disk = small_disk(folder, stack, "1200M")
    here.hosts = Hosts(seed, stack)
    _start_engines(here, here.hosts, stack)
    here.outside_url = f"http://{address('outside')}:{PORTS['outside']}"
    here.webs = [f"http://{address(name)}:{PORTS['web']}" for name in ("web-1", "web-2")]
    shared = {"REDIS_URL": here.redis_url, "CHAOS_OUTSIDE_URL": here.outside_url}
    addresses = {
        kind: shared | {"DATABASE_URL": _database(installation.role_of(kind))} for kind in KINDS
    }
    here.environment = installation.environment("http://localhost", addresses)
    allowed = ",".join(["localhost", *map(address, ("web-1", "web-2"))])
    here.environment |= {"ASSENT_ALLOWED_HOSTS": allowed}
    installation.start_outside(
        here, PORTS["outside"], stack, address("outside"), here.hosts.prefix("outside")
    )
    installation.prepare(here)
    _start_product(here, here.hosts, stack)
    installation.wait_until_up(here)
    return here


def _database(role: str) -> str:
    return engines.url(address("database"), PORTS["database"], role)


def _start_engines(here: Installation, hosts: Hosts, stack: ExitStack) -> None:
    data = here.disk.path / "postgres"
    engines.make_cluster(data, f"{PREFIX}.0/24")
    postgres = engines.postgres(
        data,
        here.folder / "postgres.log",
        PORTS["database"],
        address=address("database"),
        host=hosts.prefix("database"),
        # A session whose client's host is lost ends with its locks.
        tcp_keepalives_idle="5",
        tcp_keepalives_interval="2",
        tcp_keepalives_count="3",
        tcp_user_timeout="10000",
    )
    redis = engines.redis(
        here.folder / "redis.log",
        PORTS["redis"],
        address=address("redis"),
        host=hosts.prefix("redis"),
    )
    for program in (postgres, redis):
        installation.keep(here, program, stack)
    engines.wait_for_postgres(address("database"), PORTS["database"])
    engines.make_database(address("database"), PORTS["database"])
    here.owner_url = engines.url(address("database"), PORTS["database"])
    here.redis_url = f"redis://{address('redis')}:{PORTS['redis']}/0"


def _start_product(here: Installation, hosts: Hosts, stack: ExitStack) -> None:
    by_kind = {
        "web": processes.WEB,
        "worker": processes.WORKER,
        "courier": processes.COURIER,
        "sweeper": processes.SWEEPER,
    }
    for name in hosts.names:
        process = by_kind.get(name.partition("-")[0])
        if process is None:
            continue
        options = installation.web_options(address(name), PORTS["web"])
        command = [sys.executable, *process.command]
        command += options if process is processes.WEB else []
        environment = installation.of_kind(here, process)
        log = here.folder / f"{name}.log"
        program = Program(name, command, environment, log, folder=ROOT, host=hosts.prefix(name))
        installation.keep(here, program, stack)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
