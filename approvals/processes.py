"""The processes of the product, the queues, and which process serves which queue.

This is the only list. Settings, sweeper, ``manage.py up``, tests and benches are made from it;
the tests of the house compare it with ``compose.yaml``, ``Dockerfile`` and
``docs/operators-first-day.md``.
It is imported by the settings and therefore imports nothing of Django.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# The outbox: work like that of the queues, but found in a table and not in a queue of Redis.
DELIVER = "deliver"
# In the order in which a process looks for work. Nothing here waits for the outside except tools.
WORKER_QUEUES = ("commit", "react", "roll_back", "compensate")
# Work that waits for others (receivers, Slack, remote agents): a slow one must not delay a commit.
COURIER_QUEUES = ("respond", DELIVER, "mirror", "read_published", "begin")
# Queues with so many threads of their own, so that they wait for no other queue: agents wait for
# what ``begin`` prepares, and a tool may plan for minutes.
QUEUE_THREADS = {"begin": 2}
WORK = (*WORKER_QUEUES, *COURIER_QUEUES)
QUEUES = tuple(name for name in WORK if name != DELIVER)  # of Redis


# Read by all but MIGRATE: what the database stores encrypted, and the signals in Redis.
OF_ROWS_AND_SIGNALS = frozenset({"ASSENT_ENCRYPTION_KEYS", "ASSENT_CHANNELS_KEY"})
OF_SLACK = frozenset({"ASSENT_SLACK_BOT_TOKEN", "ASSENT_SLACK_SIGNING_SECRET"})
OF_SOCKET_MODE = frozenset({"ASSENT_SLACK_BOT_TOKEN", "ASSENT_SLACK_APP_TOKEN"})
OF_MAIL = frozenset({"ASSENT_EMAIL_URL"})
# Say to a process without the secret that others have it: what happens there is told there too.
SAYS_IT_IS_SET = {
    "ASSENT_SLACK_BOT_TOKEN": "ASSENT_HAS_SLACK",
    "ASSENT_EMAIL_URL": "ASSENT_HAS_MAIL",
}
# Links, buttons, and the names under which subjects are counted.
OF_SIGNED_TEXTS = frozenset({"ASSENT_SECRET_KEY", "ASSENT_SECRET_KEY_FALLBACKS"})


@dataclass(frozen=True, slots=True)
class Process:
    """One kind of process: a service of ``compose.yaml``, a name in the log of ``up``.

    ``command`` follows the Python interpreter. ``secrets`` are the keys and addresses that it
    gets; each may also come as ``<name>_FILE``. It gets no other one of ``SECRETS``.
    """

    name: str
    command: tuple[str, ...]
    queues: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()
    app: str = ""  # the optional app without which there is nothing to do


MIGRATE = Process(
    "migrate",
    ("manage.py", "migrate", "--noinput"),
    secrets=frozenset({"ASSENT_OWNER_DATABASE_URL", "ASSENT_LOG_DATABASE_URL"}),
)
# Pages, REST, A2A, WebSocket and long-polls at one origin (docs/decisions/one-origin.md).
# Of the requests that granian takes at once, nearly all only wait.
# A request has to be there, but for its body, after ten seconds.
# A worker that has ended (by its watchdog, or killed) is replaced, and the others go on.
# One that is told to stop ends after five seconds, whoever still waits.
GRANIAN = (
    *("granian", "--interface", "asgi", "--ws", "--respawn-failed-workers"),
    *("--backpressure", "20000", "--http1-header-read-timeout", "10000"),
    *("--workers-kill-timeout", "5", "--log-level", "warning"),
)
WEB = Process(
    "web",
    ("-m", *GRANIAN, "approvals.asgi:application"),
    secrets=OF_ROWS_AND_SIGNALS
    | OF_SIGNED_TEXTS
    | OF_SLACK
    | {
        # It publishes the public halves of those with which others sign.
        "ASSENT_CARD_KEY",
        "ASSENT_PUSH_KEY",
        "ASSENT_TOOL_KEY",
        "ASSENT_PERMIT_KEY",
        "ASSENT_OIDC_CLIENT_SECRET",
        "ASSENT_METRICS_TOKEN",
        "ASSENT_SCIM_TOKEN",
    },
)
WORKER = Process(
    "worker",
    ("manage.py", "work", "--but", *COURIER_QUEUES),
    queues=WORKER_QUEUES,
    secrets=OF_ROWS_AND_SIGNALS | {"ASSENT_TOOL_KEY"},
)
COURIER = Process(
    "courier",
    ("manage.py", "work", "--only", *COURIER_QUEUES),
    queues=tuple(name for name in COURIER_QUEUES if name != DELIVER),
    secrets=OF_ROWS_AND_SIGNALS
    | OF_SIGNED_TEXTS
    | OF_SLACK
    | OF_MAIL
    | {"ASSENT_PUSH_KEY", "ASSENT_SIEM_TOKEN", "ASSENT_TOOL_KEY", "ASSENT_VAPID_KEY"},
)
SWEEPER = Process(
    "sweeper",
    ("manage.py", "sweep"),
    secrets=OF_ROWS_AND_SIGNALS | OF_SIGNED_TEXTS | {"ASSENT_AUDIT_KEY", "ASSENT_LOG_DATABASE_URL"},
)
# For Socket Mode only.
SLACK = Process(
    "slack",
    ("manage.py", "slack_listen"),
    secrets=OF_ROWS_AND_SIGNALS | OF_SIGNED_TEXTS | OF_SOCKET_MODE,
    app="approvals.slack",
)
# The git program on repositories of strangers: in a process that serves nothing else.
BUS = Process(
    "bus", ("manage.py", "bus", "listen"), secrets=OF_ROWS_AND_SIGNALS, app="a2a.doors.git_bus"
)

EXIT_OTHER_VERSION = 65  # of ``MIGRATE``; EX_DATAERR of sysexits.h
PROCESSES = (MIGRATE, WEB, WORKER, COURIER, SWEEPER, SLACK, BUS)
SECRETS = frozenset[str]().union(*(process.secrets for process in PROCESSES))
# Of `manage.py` with any other command, which an operator runs.
OF_COMMANDS = (
    OF_ROWS_AND_SIGNALS
    | OF_SIGNED_TEXTS
    | OF_SLACK
    | OF_SOCKET_MODE
    | OF_MAIL
    | {"ASSENT_CARD_KEY", "ASSENT_PUSH_KEY", "ASSENT_TOOL_KEY"}
)


def run_by(arguments: Sequence[str]) -> Process | None:
    """The process that ``manage.py`` with these arguments is, if it is one of the list."""
    command = ("manage.py", *arguments)
    named = [each for each in PROCESSES if each.command[:2] == command[:2]]
    exact = [each for each in named if each.command[:3] == command[:3]]
    # `manage.py work` without options is worker and courier, and needs the secrets of both.
    return max(exact or named, key=lambda each: len(each.secrets), default=None)


def withheld_from(process: Process | None) -> frozenset[str]:
    """Secrets that a process does not get; ``None`` is a command that an operator runs."""
    return SECRETS - (process.secrets if process is not None else OF_COMMANDS)


def environment_of(process: Process | None, environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` without the secrets that the process does not get."""
    withheld = withheld_from(process)
    told = {
        flag: "1"
        for secret, flag in SAYS_IT_IS_SET.items()
        if secret in withheld and {secret, f"{secret}_FILE"} & set(environment)
    }
    return _without(withheld, environment) | told


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` for a program that is not ours."""
    return _without(SECRETS | {"DATABASE_URL", "REDIS_URL"}, environment)


def _without(withheld: frozenset[str], environment: Mapping[str, str]) -> dict[str, str]:
    withheld |= {f"{name}_FILE" for name in withheld}
    return {name: value for name, value in environment.items() if name not in withheld}
