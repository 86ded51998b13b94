"""The processes of the product, the queues, and which process serves which queue.

This is the only list. Settings, sweeper, ``manage.py up``, tests and benches are made from it;
the tests of the house compare it with ``compose.yaml``, ``Dockerfile`` and ``docs/operators.md``.
It is imported by the settings and therefore imports nothing of Django.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# In the order in which a process looks for work. Nothing here waits for the outside except tools.
WORKER_QUEUES = ("commit", "react", "roll_back", "compensate")
# Work that waits for others (receivers, Slack, remote agents): a slow one must not delay a commit.
COURIER_QUEUES = ("respond", "deliver", "mirror", "fetch_card", "begin")
QUEUES = (*WORKER_QUEUES, *COURIER_QUEUES)


@dataclass(frozen=True, slots=True)
class Process:
    """One kind of process: a service of ``compose.yaml``, a name in the log of ``up``.

    ``command`` follows the Python interpreter. ``secrets`` are variables that no other process
    gets; each may also come as ``<name>_FILE``.
    """

    name: str
    command: tuple[str, ...]
    queues: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()


MIGRATE = Process(
    "migrate",
    ("manage.py", "migrate", "--noinput"),
    secrets=frozenset({"ASSENT_OWNER_DATABASE_URL"}),
)
# Pages, REST, A2A, WebSocket and long-polls at one origin (docs/decisions/one-origin.md).
WEB = Process("web", ("-m", "granian", "--interface", "asgi", "--ws", "approvals.asgi:application"))
WORKER = Process("worker", ("manage.py", "work", "--but", *COURIER_QUEUES), queues=WORKER_QUEUES)
COURIER = Process(
    "courier", ("manage.py", "work", "--only", *COURIER_QUEUES), queues=COURIER_QUEUES
)
SWEEPER = Process("sweeper", ("manage.py", "sweep"), secrets=frozenset({"ASSENT_AUDIT_KEY"}))
SLACK = Process("slack", ("manage.py", "slack_listen"))  # for Socket Mode only

PROCESSES = (MIGRATE, WEB, WORKER, COURIER, SWEEPER, SLACK)
SECRETS_OF_ONE = frozenset[str]().union(*(process.secrets for process in PROCESSES))


def run_by(arguments: Sequence[str]) -> Process | None:
    """The process that ``manage.py`` with these arguments is, if it is one of the list."""
    command = ("manage.py", *arguments[:1])
    return next((each for each in PROCESSES if each.command[:2] == command), None)


def withheld_from(process: Process | None) -> frozenset[str]:
    """Variables that are the secrets of other processes; ``None`` has no secrets of its own."""
    return SECRETS_OF_ONE - (process.secrets if process is not None else frozenset())


def environment_of(process: Process | None, environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` without the secrets of other processes."""
    withheld = withheld_from(process)
    withheld |= {f"{name}_FILE" for name in withheld}
    return {name: value for name, value in environment.items() if name not in withheld}
