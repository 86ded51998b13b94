"""``manage.py doctor``: what is wrong with this installation, and the mend."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.checks import run_checks
from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone
from redis import RedisError

from approvals import metrics
from ledger.foundation import doorbell
from ledger.workers.start_checks import dangers_of_database

OLDEST_POSTGRES = 15
CLOCK_S = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """``mend`` is empty for what is right. ``name`` has nothing of the installation in it."""

    name: str
    what: str
    mend: str = ""


class Command(BaseCommand):
    help = "Says what is wrong with this installation, and the mend. Changes nothing."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        findings = [*findings_now()]
        for finding in findings:
            word = f"wrong  {finding.what}\n       {finding.mend}" if finding.mend else ""
            self.stdout.write(word or f"ok     {finding.what}")
        wrong = sum(bool(finding.mend) for finding in findings)
        self.stdout.write(f"{wrong} of {len(findings)} wrong." if wrong else "Nothing is wrong.")
        if wrong:
            sys.exit(1)


def findings_now() -> Iterator[Finding]:
    yield from _settings()
    yield from _database()
    yield from _redis()


def _settings() -> Iterator[Finding]:
    faults = [check for check in run_checks() if check.is_serious()]
    for each in faults:
        yield Finding(str(each.id), f"settings: {each.msg}", each.hint or "See the text.")
    if not faults:
        yield Finding("settings", "settings: they pass the checks of a start")


def _database() -> Iterator[Finding]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp(), current_setting('server_version_num')::int")
            at, version = cursor.fetchone()
    except DatabaseError as failure:
        line = str(failure).strip().partition("\n")[0]
        mend = "Start it, or correct DATABASE_URL."
        yield Finding("database.away", f"database: it does not answer: {line}", mend)
        return
    if version < OLDEST_POSTGRES * 10_000:
        what = f"database: PostgreSQL {version // 10_000}"
        yield Finding("database.version", what, "It takes 15 or newer.")
    if abs((at - timezone.now()).total_seconds()) > CLOCK_S:
        what = "database: its clock and the one of this machine differ"
        yield Finding("database.clock", what, "Run NTP on both of them.")
    executor = MigrationExecutor(connection)
    if left := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        what = f"database: {len(left)} migrations have not run"
        yield Finding("database.migrations", what, "Run manage.py migrate.")
    for what, mend in dangers_of_database(connection):
        yield Finding("database.danger", f"database: {what}", mend)
    yield Finding("database", f"database: PostgreSQL {version // 10_000} answers")
    if not left:
        yield from _alarms()


def _redis() -> Iterator[Finding]:
    try:
        doorbell.redis().ping()
    except RedisError as failure:
        yield Finding(
            "redis.away",
            f"redis: it does not answer: {failure}",
            "Start it, or correct REDIS_URL. Until then everything comes about a second later.",
        )
    else:
        yield Finding("redis", "redis: it answers")


def _alarms() -> Iterator[Finding]:
    gathered = metrics.gathered()
    on = [alarm for alarm in metrics.ALARMS if alarm.is_on(gathered)]
    for alarm in on:
        yield Finding(alarm.name, f"at work: {alarm.wrong}", f"{alarm.mend}.")
    if not on:
        yield Finding("at_work", "at work: processes run, nothing is late, the log is signed")
