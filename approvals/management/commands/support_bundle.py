"""``manage.py support_bundle``: what somebody who helps needs to know, and nothing else.

Everything in it is on a list of what is harmless, by name and by form: numbers, words of ours,
versions. No text of a person, an agent or a tool is read, and no value of a setting that could be
a secret.
"""

from __future__ import annotations

import json
import os
import platform
import re
import zipfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, QuerySet
from django.utils import timezone
from redis import RedisError

from a2a.models import Task
from approvals import metrics
from approvals.management.commands.doctor import findings_now
from approvals.processes import PROCESSES
from ledger.foundation import doorbell, liveness
from ledger.models import Checkpoint, Delivery, Event, Transaction

PACKAGES = (
    *("a2a-sdk", "channels", "channels-redis", "cryptography", "django", "django-ninja"),
    *("django-rq", "fido2", "granian", "httpx", "jsonschema-rs", "psycopg", "pydantic"),
    *("redis", "rq", "slack-sdk", "starlette", "uvloop"),
)
# By what the settings made of them: a number or a flag is no secret, whatever was written there.
NUMBERS = (
    *("DEBUG", "IS_DEMO", "BEHIND_PROXY", "HAS_MAIL", "HAS_SLACK", "GIT_BUS_LOCAL", "USE_TZ"),
    *("WEB_PROCESSES", "WORKER_PROCESSES", "COURIER_PROCESSES", "BUS_PROCESSES"),
    *("DATABASE_SESSIONS", "DATABASE_POOL", "PAGE_THREADS", "PLAN_THREADS", "CALL_THREADS"),
    *("LEASE_S", "SWEEP_EVERY_S", "CHECKPOINT_EVERY_S", "SOCKET_CHECK_S", "BODY_S"),
    *("TASK_RETENTION_DAYS", "HUMANLAYER_TTL_S", "BLOCKING_SEND_S", "REMOTE_LOST_S"),
    *("DELEGATION_BUDGET", "A2A_BODY_MAX", "SECOND_OPERATOR_FROM"),
)
WORDS = {
    "DATABASE_POOLING": {"session", "transaction"},
    "SLACK_TRANSPORT": {"http", "socket"},
    "SIEM_FORM": {"json", "splunk", "otlp"},
    "OPTIONAL_APPS": {
        *("a2a.doors.git_bus", "a2a.doors.humanlayer", "a2a.doors.mcp_server"),
        *("approvals.insight", "approvals.local", "approvals.slack", "approvals.conformance"),
    },
}
# Labels of metrics whose values are words of ours. The others (tools, agents, tenants) get numbers.
LABELS = {"state", "queue", "kind", "verdict", "quantile", "channel", "progress", "limit", "of"}
WORD = re.compile(r"[a-z0-9_.-]{1,40}")
OURS = ("a2a", "approvals", "ledger", "django.contrib")
LOG_TAIL, MOST_ERRORS = 5_000_000, 200
GRAVE = {"WARNING", "ERROR", "CRITICAL"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LOGGER = re.compile(r"(?:a2a|approvals|assent|ledger|django|rq|psycopg|asyncio)(?:\.[a-z_]{1,40})*")
FRAME = re.compile(r'File "[^"\n]*/((?:a2a|approvals|ledger)/[a-z0-9_/]+\.py)", line (\d+)')
RAISED = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w{2,50})(?=:|$)", re.M)


class Command(BaseCommand):
    help = (
        "Writes what somebody who helps needs to know of this installation: findings, versions, "
        "figures. No secrets, no names, no contents. Changes nothing."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="OUT.zip")
        parser.add_argument(
            "--log",
            type=Path,
            metavar="FILE",
            help="a log (ASSENT_LOG_FORMAT=json): of its last errors when, where and which kind",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        with (
            open(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw,
            zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as bundle,
        ):
            for name, value in _parts(options["log"]):
                bundle.writestr(f"{name}.json", json.dumps(value, indent=1, default=str) + "\n")
        self.stdout.write(self.style.SUCCESS(f"It is in {file}. Read it before you send it."))


def _parts(log: Path | None) -> Iterator[tuple[str, Any]]:
    """Each part for itself: what is broken is why somebody asks for help."""
    parts: dict[str, Callable[[], Any]] = {
        "versions": _versions,
        "settings": _settings,
        "findings": lambda: [*_findings()],
        "database": _database,
        "migrations": _migrations,
        "counts": _counts,
        "metrics": _metrics,
        "processes": _processes,
    }
    if log is not None:
        parts["errors"] = lambda: [*_errors_in(log)][-MOST_ERRORS:]
    for name, read in parts.items():
        try:
            yield name, read()
        except Exception as failure:
            yield name, {"failed": type(failure).__name__}


def _processes() -> dict[str, int] | None:
    counts = liveness.counts()
    return None if counts is None else {each.name: counts[each.name] for each in PROCESSES}


def _findings() -> Iterator[dict[str, Any]]:
    try:
        for each in findings_now():
            yield {"name": each.name, "ok": not each.mend}
    except Exception as failure:
        yield {"name": type(failure).__name__, "ok": False}


def _versions() -> dict[str, Any]:
    return {
        "made_at": timezone.now(),
        "assent": settings.VERSION,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "redis": _redis_version(),
        **{name: _version_of(name) for name in PACKAGES},
    }


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _redis_version() -> str | None:
    try:
        info: Any = doorbell.redis().info("server")
    except RedisError as failure:
        return type(failure).__name__
    return str(info.get("redis_version"))


def _settings() -> dict[str, Any]:
    """The names of all that are set; values only of what cannot be a secret."""
    values = {name: getattr(settings, name) for name in NUMBERS}
    values = {k: v for k, v in values.items() if isinstance(v, bool | int | float | Decimal)}
    for name, known in WORDS.items():
        value = getattr(settings, name)
        words = value if isinstance(value, list) else [value]
        values[name] = [word for word in words if word in known]
    own = ("ASSENT_", "DATABASE_URL", "REDIS_URL")
    return {"are_set": sorted(name for name in os.environ if name.startswith(own)), **values}


def _database() -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version_num'), current_setting('max_connections'),"
            " pg_database_size(current_database()), pg_is_in_recovery(), clock_timestamp()"
        )
        columns = ("version", "max_connections", "bytes", "is_standby", "clock")
        return dict(zip(columns, cursor.fetchone(), strict=True))


def _migrations() -> dict[str, Any]:
    """Of our apps and of Django's: those of tools have names of others."""
    ours = {each.label for each in apps.get_app_configs() if each.name.startswith(OURS)}
    loader = (executor := MigrationExecutor(connection)).loader
    known = set(loader.graph.nodes)
    applied = sorted(node for node in loader.applied_migrations if node in known)
    plan = executor.migration_plan(loader.graph.leaf_nodes())
    return {
        "applied": [f"{app}.{name}" for app, name in applied if app in ours],
        "left": [f"{each.app_label}.{each.name}" for each, _ in plan if each.app_label in ours],
        "of_others": sum(app not in ours for app, _ in applied),
    }


def _counts() -> dict[str, Any]:
    by_channel = Delivery.objects.values_list("channel", "state").annotate(Count("pk"))
    return {
        "transactions": _by_state(Transaction.objects.all()),
        "tasks": _by_state(Task.objects.all()),
        "deliveries": {f"{channel} {state}": number for channel, state, number in by_channel},
        "events": Event.objects.count(),
        "checkpoints": Checkpoint.objects.count(),
    }


def _by_state(rows: QuerySet[Any]) -> dict[str, int]:
    return dict(rows.order_by().values_list("state").annotate(Count("pk")))


def _metrics() -> dict[str, Any]:
    return {
        metric.name: [
            {**_harmless(labels, number), "value": value}
            for number, (labels, value) in enumerate(sorted(metric.values.items()), 1)
        ]
        for metric in metrics.gathered().values()
    }


def _harmless(labels: Iterable[tuple[str, str]], number: int) -> dict[str, Any]:
    return {
        name: value if name in LABELS and WORD.fullmatch(value) else number
        for name, value in labels
    }


def _errors_in(log: Path) -> Iterator[dict[str, Any]]:
    """Of each line that is grave: when, from which logger, through which of our lines."""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
        for raw in file:
            try:
                line = json.loads(raw)
                is_grave = line["level"] in GRAVE
            except (ValueError, LookupError, TypeError):
                continue
            if is_grave:
                trace = str(line.get("error", ""))
                yield {
                    "level": line["level"],
                    "time": _if(TIME, line.get("time")),
                    "logger": _if(LOGGER, line.get("logger")),
                    "raised": _raised_in(trace),
                    "through": [f"{path}:{number}" for path, number in FRAME.findall(trace)],
                }


def _if(form: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and form.fullmatch(value) else None


def _raised_in(trace: str) -> str | None:
    """The name of the exception: after the last frame, and before what it says."""
    end = [*FRAME.finditer(trace)][-1:]
    names = RAISED.findall(trace, end[0].end() if end else 0)
    return names[0] if names else None
