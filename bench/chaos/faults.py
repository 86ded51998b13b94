"""The faults of a storm. Each begins, lasts for the seconds that the script says, and is mended.

``KINDS`` has each kind with the seconds that it lasts at most; those that take a privilege or a
program which is not here are left out, and said (``missing``).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from bench.chaos import sign_off
from bench.chaos.installation import KINDS as PROCESS_KINDS, LEASE_S, SERVICES, Installation
from tests.faults import thaw

Fault = Callable[[Installation, Random, float], None]
FAKETIME = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
)
SKEWS_S = (-90, -5, 5, 90)
MOODS = ("slow", "late", "silent", "refusing", "late_effect")


def _killed(kind: str) -> Fault:
    """kill -9 of one process of the kind; its supervisor starts it again."""

    def fault(here: Installation, dice: Random, seconds: float) -> None:
        dice.choice(here.of_kind(kind)).kill()

    return fault


def _child_killed(kind: str) -> Fault:
    """kill -9 of something that the process started: a web worker, a database session."""

    def fault(here: Installation, dice: Random, seconds: float) -> None:
        dice.choice(here.of_kind(kind)).kill_child(dice.randrange(1000))

    return fault


def _frozen(kind: str) -> Fault:
    """Its sockets stay open, and nothing is answered."""

    def fault(here: Installation, dice: Random, seconds: float) -> None:
        pids = dice.choice(here.of_kind(kind)).freeze()
        try:
            time.sleep(seconds)
        finally:
            for pid in pids:
                thaw(pid)

    return fault


def _absent(kind: str) -> Fault:
    def fault(here: Installation, dice: Random, seconds: float) -> None:
        program = dice.choice(here.of_kind(kind))
        program.down()
        try:
            time.sleep(seconds)
        finally:
            program.up()

    return fault


def _session_frozen(here: Installation, dice: Random, seconds: float) -> None:
    """One session of PostgreSQL stands still, with whatever locks it has."""
    with _sessions(here) as pids:
        frozen = dice.sample(pids, min(2, len(pids)))
    for pid in frozen:
        with suppress(ProcessLookupError):
            subprocess.run(["kill", "-STOP", str(pid)], check=False, capture_output=True)
    try:
        time.sleep(seconds)
    finally:
        for pid in frozen:
            thaw(pid)


def _sessions_ended(here: Installation, dice: Random, seconds: float) -> None:
    """The database ends every session of the product, as for a fail-over."""
    import psycopg

    with suppress(psycopg.Error), psycopg.connect(here.owner_url, connect_timeout=2) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = 'assent_app' AND pid <> pg_backend_pid()"
        )


@contextmanager
def _sessions(here: Installation) -> Iterator[list[int]]:
    """Process ids of the product's database sessions, none if the database is away."""
    import psycopg

    pids: list[int] = []
    with suppress(psycopg.Error), psycopg.connect(here.owner_url, connect_timeout=2) as connection:
        rows: list[Any] = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = 'assent_app' ORDER BY pid"
        ).fetchall()
        pids = [row[0] for row in rows]
    yield pids


def _link(order: str, service: str) -> Fault:
    def fault(here: Installation, dice: Random, seconds: float) -> None:
        assert here.links is not None
        kinds = dice.sample(PROCESS_KINDS, dice.choice((1, 1, len(PROCESS_KINDS))))
        names = [f"{kind} {service}" for kind in kinds]
        for name in names:
            here.links.order(name, order)
        try:
            time.sleep(seconds)
        finally:
            for name in names:
                here.links.order(name, "restore")

    return fault


def _redis_flushed(here: Installation, dice: Random, seconds: float) -> None:
    import redis

    with suppress(redis.RedisError):
        redis.Redis.from_url(here.redis_url, socket_timeout=1).flushall()


def _clock_skewed(kind: str) -> Fault:
    """The process runs with another time of day than the others, and then with theirs again."""

    def fault(here: Installation, dice: Random, seconds: float) -> None:
        program = dice.choice(here.of_kind(kind))
        skew = dice.choice(SKEWS_S)
        program.restart(
            LD_PRELOAD=_faketime(), FAKETIME=f"{skew:+d}s", FAKETIME_DONT_FAKE_MONOTONIC="1",
            DONT_FAKE_MONOTONIC="1",
        )  # fmt: skip
        time.sleep(seconds)
        program.restart()

    return fault


def _faketime() -> str:
    return next((path for path in FAKETIME if Path(path).exists()), "")


def _disk_full(here: Installation, dice: Random, seconds: float) -> None:
    here.disk.fill()
    try:
        time.sleep(seconds)
    finally:
        here.disk.empty()


def _in_mood(mood: str) -> Fault:
    def fault(here: Installation, dice: Random, seconds: float) -> None:
        import httpx

        with suppress(httpx.HTTPError):  # it may be away just now
            here.mood(mood, seconds)
        time.sleep(seconds)

    return fault


def _jobs_twice(here: Installation, dice: Random, seconds: float) -> None:
    """Every job that waits or was there a moment ago is enqueued three times more."""
    script = (
        "from ledger.models import Transaction as T\nfrom ledger.workers.jobs import enqueue\n"
        "rows = list(T.objects.exclude(state__in=['refused', 'prepared']).order_by('-pk')[:60])\n"
        "for name in ('commit', 'roll_back') * 3:\n    [enqueue(name, row.pk) for row in rows]\n"
    )
    from bench.chaos import engines

    environment = here.environment | {"DATABASE_URL": here.owner_url, "REDIS_URL": here.redis_url}
    with suppress(subprocess.CalledProcessError):  # database or Redis may be away just now
        engines.run_manage(environment, "shell", "-v", "0", "-c", script)


def _network(loss: float, delay_s: float, *, ways: int = 2, alone: bool = False) -> Fault:
    """Frames between one host and another, or all others, are lost or late, one way or both."""

    def fault(here: Installation, dice: Random, seconds: float) -> None:
        assert here.hosts is not None
        one = dice.choice(here.hosts.names)
        others = [name for name in here.hosts.names if name != one]
        others = others if alone else [dice.choice(others)]
        cables = [(one, other) for other in others]
        cables += [(other, one) for other in others] if ways == 2 else []
        for source, target in cables:
            here.hosts.cable(source, target, loss=loss, delay_s=delay_s)
        try:
            time.sleep(seconds)
        finally:
            for source, target in cables:
                here.hosts.cable(source, target)

    return fault


# Of one machine, where each kind of process has links of its own.
LINKS: dict[str, tuple[Fault, float]] = {
    f"{service} {name}": (_link(order, service), seconds)
    for service in SERVICES
    for name, order, seconds in (
        ("swallowed", "swallow", 5.0),
        ("cut", "cut", 0.5),
        ("slow", "slow", 3.0),
    )
}
# Of several hosts.
NETWORK: dict[str, tuple[Fault, float]] = {
    "host cut off": (_network(1.0, 0, alone=True), 6),
    "two hosts parted": (_network(1.0, 0), 6),
    "two hosts parted one way": (_network(1.0, 0, ways=1), 6),
    "a host's frames lost": (_network(0.15, 0, alone=True), 5),
    "a host's frames late": (_network(0.0, 0.08, alone=True), 5),
}
# The kinds, each with the seconds that it lasts at most.
KINDS: dict[str, tuple[Fault, float]] = {
    "web killed": (_killed("web"), 0.5),
    "web's child killed": (_child_killed("web"), 0.5),
    "worker killed": (_killed("worker"), 0.5),
    "courier killed": (_killed("courier"), 0.5),
    "sweeper killed": (_killed("sweeper"), 0.5),
    "outside killed": (_killed("outside"), 0.5),
    "Redis killed": (_killed("redis"), 0.5),
    "PostgreSQL killed": (_killed("postgres"), 0.5),
    "PostgreSQL session killed": (_child_killed("postgres"), 0.5),
    "PostgreSQL sessions ended": (_sessions_ended, 0.5),
    "web frozen": (_frozen("web"), 4),
    # Longer than the lease: another may look what became of its work.
    "worker frozen": (_frozen("worker"), LEASE_S * 2.5),
    "courier frozen": (_frozen("courier"), 4),
    "sweeper frozen": (_frozen("sweeper"), 6),
    "outside frozen": (_frozen("outside"), 5),
    "Redis frozen": (_frozen("redis"), 5),
    "PostgreSQL frozen": (_frozen("postgres"), 4),
    "PostgreSQL session frozen": (_session_frozen, 4),
    "Redis flushed": (_redis_flushed, 0.2),
    "Redis absent": (_absent("redis"), 4),
    "workers absent": (_absent("worker"), 4),
    "outside absent": (_absent("outside"), 3),
    "PostgreSQL absent": (_absent("postgres"), 3),
    "worker's clock skewed": (_clock_skewed("worker"), 6),
    "sweeper's clock skewed": (_clock_skewed("sweeper"), 6),
    "web's clock skewed": (_clock_skewed("web"), 6),
    "disk full": (_disk_full, 3),
    **{f"outside is {mood}": (_in_mood(mood), 4.0) for mood in MOODS},
    "jobs enqueued again": (_jobs_twice, 0.5),
    "rules changed": (sign_off.rules_changed, 3),
    "agent stopped": (sign_off.agent_stopped, 4),
}


def missing(here: Installation) -> dict[str, str]:
    """The kinds that cannot happen here, and why."""
    left_out = {}
    if not _faketime():
        why = "libfaketime is not installed (Debian: apt-get install libfaketime)"
        left_out |= {kind: why for kind in KINDS if "clock skewed" in kind}
    if here.disk.why_not:
        left_out["disk full"] = here.disk.why_not
    return left_out


def possible(here: Installation) -> dict[str, float]:
    """The kinds that can happen here, with the seconds that each lasts at most."""
    left_out = missing(here)
    kinds = LINKS if here.hosts is None else NETWORK
    return {kind: most for kind, (_, most) in {**KINDS, **kinds}.items() if kind not in left_out}


def happen(here: Installation, kind: str, dice: Random, seconds: float) -> None:
    """One fault, until it is mended."""
    {**KINDS, **LINKS, **NETWORK}[kind][0](here, dice, seconds)
