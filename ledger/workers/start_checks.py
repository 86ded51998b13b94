"""Checks of settings and database role; a process that they find unsafe does not start.

Every process calls ``refuse_if_unsafe`` first: web, worker, sweeper, slack, bus. Where the desk is
served to this machine only (`make up`, `make demo`), most checks do not apply.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created

from ledger import limits
from ledger.contracts import LONGEST_RETENTION
from ledger.foundation.postgres import may_change_session, shares_sessions, too_many_sessions
from ledger.workers import key_checks
from ledger.workers.key_checks import BUS, WEB, is_public

logger = logging.getLogger(__name__)

EXIT_UNSAFE = 78  # EX_CONFIG of sysexits.h
# Signatures with SSH keys came with 2.34, safe.bareRepository with 2.38.
OLDEST_GIT = (2, 38)


_of_apps: list[Callable[[], Iterable[CheckMessage]]] = []


def register_check(check: Callable[[], Iterable[CheckMessage]]) -> None:
    """A check of an optional app, for all processes. Called in ``AppConfig.ready()``."""
    _of_apps.append(check)


def dangers(role: str) -> list[CheckMessage]:
    """Errors for which a process of this role must not start, and warnings."""
    everywhere = [
        *key_checks.keys(),
        *_networks(),
        *_terms(),
        *_limits(),
        *key_checks.audit_key(role),
        *(danger for check in _of_apps for danger in check()),
    ]
    if role == BUS:
        everywhere += _programs()
    return [*everywhere, *_addresses(), *key_checks.secrets(role)] if is_public() else everywhere


def refuse_if_unsafe(role: str) -> None:
    """End this process if a check fails: stderr says what is wrong, why it matters, what to do."""
    messages = dangers(role)
    for message in messages:
        if not message.is_serious():
            logger.warning("%s %s", message.msg, message.hint)
    errors = [message for message in messages if message.is_serious()]
    if errors:
        _write_refusal(role, *((error.msg, error.hint or "") for error in errors))
        sys.exit(EXIT_UNSAFE)
    _check_at_first_connection(role)
    if is_public() or role != WEB:  # who imports the web application may not want to connect
        check_database()


def _write_refusal(role: str, *reasons: tuple[str, str]) -> None:
    """Each reason is the problem and the hint how to solve it."""
    sys.stderr.write(f"Assent's {role} does not start, because that would not be safe:\n")
    for problem, hint in reasons:
        sys.stderr.write(f"  - {problem}\n    {hint}\n")
    sys.stderr.write("Nothing was changed. docs/operators-first-day.md says more.\n")


def allow_many_connections() -> None:
    """Let this process open as many files as it may at all: each connection of who waits is one.

    Soft limits of 1,024 are common, and a web process would refuse its 1,025th connection.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS takes no unlimited number
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _check_at_first_connection(role: str) -> None:

    def check(connection: Any, **_: object) -> None:
        connection_created.disconnect(dispatch_uid="ledger.workers.start_checks")
        if reasons := [*dangers_of_database(connection)]:
            _write_refusal(role, *reasons)
            os._exit(EXIT_UNSAFE)  # sys.exit would end only the thread that connected first

    connection_created.connect(check, dispatch_uid="ledger.workers.start_checks", weak=False)


def dangers_of_database(connection: Any) -> Iterator[tuple[str, str]]:
    """Dangers of the database of this connection, each with the mend."""
    yield from _dangers_of_sessions(connection)
    if is_public():
        yield from _dangers_of_database_role(connection)
        yield from _dangers_of_pooler(connection)


def check_database() -> None:
    """Connect once, which runs the checks of the database, unless it is not up yet."""
    try:
        connection.ensure_connection()
    except OperationalError:
        logger.warning(
            "the database is not up yet; its role, sessions and pooler are checked later"
        )
    finally:
        connection.close()


def _dangers_of_database_role(connection: Any) -> Iterator[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(_MAY_REWRITE)
        user, may_rewrite, may_end_log = cursor.fetchone()
    if may_rewrite:
        yield (
            f"The database role {user} may change the audit log.",
            "Let the owner's role migrate (ASSENT_OWNER_DATABASE_URL) and name another one in "
            "DATABASE_URL.",
        )
    elif may_end_log and not settings.KEEPS_LOG:
        yield (
            f"The database role {user} may write checkpoints, and so put an end to the audit log.",
            "Name another role in ASSENT_LOG_DATABASE_URL, for `migrate` and the sweeper alone, "
            "and migrate.",
        )


def _dangers_of_pooler(connection: Any) -> Iterator[tuple[str, str]]:
    if not may_change_session() and shares_sessions(connection):
        yield (
            "A pooler gives each database transaction another session of PostgreSQL: statements "
            "that this process prepares would be those of others.",
            "Set ASSENT_DATABASE_POOLING=transaction for all processes, or pool_mode = session in "
            "PgBouncer (docs/scaling.md).",
        )


def _dangers_of_sessions(connection: Any) -> Iterator[tuple[str, str]]:
    if problem := too_many_sessions(connection):
        yield (
            f"assent.E014: {problem} Under load requests would fail.",
            "Lower ASSENT_DATABASE_POOL, correct ASSENT_WEB_PROCESSES, ASSENT_WORKER_PROCESSES, "
            "ASSENT_COURIER_PROCESSES and ASSENT_BUS_PROCESSES, or raise max_connections. Behind "
            "PgBouncer say in ASSENT_DATABASE_SESSIONS how many it gives.",
        )


_MAY_REWRITE = """
    SELECT current_user, rolsuper
        OR coalesce(has_table_privilege(to_regclass('ledger_event'), 'UPDATE'), false),
        coalesce(has_table_privilege(to_regclass('ledger_checkpoint'), 'INSERT'), false)
    FROM pg_roles WHERE rolname = current_user
"""


@register(Tags.security, deploy=True)
def check_deployment(**_: object) -> list[CheckMessage]:
    """The checks of all processes, for `manage.py check --deploy`."""
    return [
        *key_checks.keys(),
        *_networks(),
        *_terms(),
        *_limits(),
        *(danger for check in _of_apps for danger in check()),
        *_addresses(),
        *key_checks.secrets(WEB),
    ]


def _addresses() -> Iterator[CheckMessage]:
    if settings.DEBUG:
        yield Error(
            "ASSENT_DEBUG is on at a public address: error pages show settings and data.",
            hint="Set ASSENT_DEBUG=0.",
            id="assent.E001",
        )
    for name, url in (("PUBLIC", settings.PUBLIC_URL), ("LIVE", settings.LIVE_URL)):
        if not url.startswith("https://"):
            yield Error(
                f"ASSENT_{name}_URL is {url}: sessions and tokens would be sent unencrypted.",
                hint="Serve it over https (compose.yaml does) and set an https:// address.",
                id="assent.E002",
            )
    if "*" in settings.ALLOWED_HOSTS:
        yield Error(
            "ASSENT_ALLOWED_HOSTS is *: a forged Host header would appear in the links we send.",
            hint="List the hosts, separated by commas.",
            id="assent.E003",
        )


def _terms() -> Iterator[CheckMessage]:
    if not 0 < settings.TASK_RETENTION_DAYS <= LONGEST_RETENTION.days:
        yield Error(
            f"ASSENT_TASK_RETENTION_DAYS is {settings.TASK_RETENTION_DAYS:g}.",
            hint=f"More than 0, at most {LONGEST_RETENTION.days}: days that content is kept.",
            id="assent.E012",
        )


def _limits() -> Iterator[CheckMessage]:
    try:
        limits.parsed(settings.LIMITS)
    except ValueError as failure:
        yield Error(
            f"ASSENT_LIMITS cannot be read: {failure}.",
            hint="Write agent.pending=1000; docs/operators-running.md lists the limits.",
            id="assent.E013",
        )
    if settings.WEB_PROCESSES < 1:
        yield Error(
            f"ASSENT_WEB_PROCESSES is {settings.WEB_PROCESSES}.",
            hint="Set the number of web processes of the installation.",
            id="assent.E013",
        )


def _programs() -> Iterator[CheckMessage]:
    """Those that the process of the git buses runs."""
    version = _git_version()
    if version < OLDEST_GIT:
        shown = ".".join(map(str, version))
        yield Error(
            f"git {shown} is too old." if version else "The program git is not there.",
            hint="Install git {}.{} or newer; the image has it.".format(*OLDEST_GIT),
            id="assent.E015",
        )
    for program, missing in (
        ("ssh", "buses at ssh:// cannot be reached"),
        ("ssh-keygen", "no signature can be verified, and every request counts as unsigned"),
    ):
        if shutil.which(program) is None:
            yield Warning(
                f"The program {program} is not there: {missing}.",
                hint="Install OpenSSH's client; the image has it.",
                id="assent.W002",
            )
    if settings.GIT_BUS_LOCAL and is_public():
        yield Warning(
            "ASSENT_GIT_BUS_LOCAL is on: operators can name any folder of this host as a bus.",
            hint="Set ASSENT_GIT_BUS_LOCAL=0.",
            id="assent.W003",
        )


def _git_version() -> tuple[int, ...]:
    """Empty if it cannot be run."""
    try:
        run = subprocess.run(["git", "--version"], capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.search(rb"(\d+)\.(\d+)", run.stdout)
    return tuple(map(int, match.groups())) if match else ()


def _networks() -> Iterator[CheckMessage]:
    if not all(port.isdecimal() for port in settings.WEBHOOK_PORTS):
        yield Error(
            f"ASSENT_WEBHOOK_PORTS is not a list of ports: {', '.join(settings.WEBHOOK_PORTS)}.",
            hint="Numbers, separated by commas.",
            id="assent.E011",
        )
    for network in settings.WEBHOOK_NETWORKS:
        try:
            ipaddress.ip_network(network)
        except ValueError as failure:
            yield Error(
                f"ASSENT_WEBHOOK_NETWORKS has {network!r}, which is not a network: {failure}.",
                hint="Write 10.1.0.0/16 or fd00:1::/48; several are separated by commas.",
                id="assent.E010",
            )
