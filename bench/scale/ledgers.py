"""Two ledgers of different size on one PostgreSQL server, each with a web process of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.engines import free_port, web

PENDING = 60  # waiting for sign-off, in each ledger


@dataclass(frozen=True, slots=True)
class Ledger:
    """A seeded database, and what a client needs to use it over HTTP."""

    database: str
    rows: int
    gigabytes: float
    cookies: dict[str, str]  # name of the user → cookie of the session
    tokens: dict[str, str]  # name of the agent → bearer token


def fill(name: str, rows: int) -> Ledger:
    """A database with so many ended transactions, seeded unless it was, and a few that wait."""
    from bench.scale import seeding

    use(name)
    if not _is_filled(rows):
        seeding.seed(rows)
        _mark_filled(rows)
    cookies, tokens = _people(), _agents()
    _pending()
    return Ledger(name, rows, _gigabytes(), cookies, tokens)


def _is_filled(rows: int) -> bool:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database"
            " WHERE datname = current_database()"
        )
        (filled,) = cursor.fetchone()
    assert filled in {None, str(rows)}, f"the kept ledger has {filled} rows, not {rows}"
    return filled is not None


def _mark_filled(rows: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        name = connection.settings_dict["NAME"]
        cursor.execute(f"COMMENT ON DATABASE {name} IS '{rows}'")


@contextmanager
def served(ledger: Ledger) -> Iterator[int]:
    """Its web process; the port."""
    use(ledger.database)
    port = free_port()
    with web(port, processes=1):
        yield port


def use(name: str) -> None:
    """Connect this process, and those that it starts, to a database of this name."""
    from django.core.management import call_command
    from django.db import connection

    if connection.settings_dict["NAME"] != name:
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM pg_database WHERE datname = %s", [name])
            if cursor.fetchone() is None:
                cursor.execute(f"CREATE DATABASE {name}")
        connection.close()
        connection.settings_dict["NAME"] = name
        url = os.environ["DATABASE_URL"]
        os.environ["DATABASE_URL"] = re.sub(r"/[a-z]+(\?|$)", rf"/{name}\1", url, count=1)
    call_command("migrate", verbosity=0)


def _people() -> dict[str, str]:
    """An operator of the largest tenant, one of two tenants, one of the smallest; a superuser."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    from approvals.models import Membership
    from bench.scale import variety
    from ledger.models import Tenant

    for slug in variety.TENANTS:
        Tenant.objects.get_or_create(slug=slug, defaults={"name": slug, "tools": ["*"]})
    tenants = {"reader": ["bench"], "two": ["bench", "small"], "tiny": ["tiny"], "chief": []}
    cookies = {}
    for name, slugs in tenants.items():
        person, _ = User.objects.get_or_create(username=name, is_staff=True)
        person.user_permissions.set(Permission.objects.all())
        if not slugs:
            User.objects.filter(pk=person.pk).update(is_superuser=True)
        for slug in slugs:
            for role in ("approver", "operator"):
                Membership.objects.get_or_create(user=person, tenant_id=slug, role=role)
        client = Client()
        client.force_login(person)
        cookies[name] = client.cookies["assent_session"].value
    return cookies


def _agents() -> dict[str, str]:
    from bench.scale import variety
    from ledger.models import Agent, AgentToken

    scopes = {
        "bench": ["propose", "submit", "work"],
        "day": ["propose", "read_all", "submit", "decide"],
        "guest": ["propose", "submit"],
    }
    for tenant in variety.TENANTS:
        for slug in variety.AGENTS:
            Agent.objects.get_or_create(
                tenant_id=tenant, slug=slug, defaults={"name": f"{slug.title()} agent"}
            )
    return {
        slug: AgentToken.issue(Agent.objects.get(tenant="bench", slug=slug), scopes=scopes[slug])[1]
        for slug in scopes
    }


def _pending() -> None:
    from django.db.models.functions import Now

    from bench.execution import prepared
    from ledger.models import Transaction

    rows = Transaction.objects.filter(tenant="bench").pending()
    waiting = rows.filter(expires_at__gt=Now() + timedelta(minutes=10)).count()
    prepared(max(0, PENDING - waiting))


def _gigabytes() -> float:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CHECKPOINT")
        cursor.execute("SELECT pg_database_size(current_database())")
        size: Any = cursor.fetchone()[0]
    connection.close()
    return float(size) / 1e9
