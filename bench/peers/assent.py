"""Assent's own part of the comparison: two agents, and when each effect happened."""

from __future__ import annotations

import time


def agents() -> tuple[str, str, str]:
    """The tokens of an agent that proposes and of one that approves; the database's name."""
    from django.db import connection

    from ledger.models import Agent, AgentToken, Tenant

    tenant, _ = Tenant.objects.get_or_create(
        slug="bench", defaults={"name": "Bench", "tools": ["*"]}
    )
    tokens = []
    for slug, scope in (("bench", "propose"), ("supervisor", "decide")):
        agent, _ = Agent.objects.get_or_create(tenant=tenant, slug=slug, defaults={"name": slug})
        tokens.append(AgentToken.issue(agent, scopes=[scope])[1])
    name = str(connection.settings_dict["NAME"])
    connection.close()
    return tokens[0], tokens[1], name


def until_the_worker_listens() -> None:
    from django.conf import settings
    from redis import Redis
    from rq import Worker

    connection = Redis.from_url(settings.REDIS_URL)
    while not Worker.all(connection=connection):
        time.sleep(0.05)
