"""Each server that the settings name, asked by a session of its own and within a limit."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import psycopg
from django.db import connections

# Parameters that PostgreSQL's client library knows; Django's settings have others beside them.
PARAMETERS = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}


async def ask_each(query: Any, within_s: float) -> list[Any]:
    """The first row of each that answers; asked side by side, so that a silent one delays none."""
    answers = await asyncio.gather(*(_ask(server, query, within_s) for server in _servers()))
    return [answer for answer in answers if answer is not None]


def database_now() -> datetime:
    """The clock of the database, which all deadlines are measured by."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def has_primary(within_s: float) -> bool:
    """True if a server that takes writes answers within that many seconds."""
    rows = asyncio.run(ask_each("SELECT pg_is_in_recovery()", within_s))
    return any(not is_standby for (is_standby,) in rows)


def _servers() -> list[dict[str, Any]]:
    options = connections["default"].get_connection_params()
    shared = {name: value for name, value in options.items() if name in PARAMETERS}
    hosts = str(shared.pop("host", "")).split(",")
    ports = str(shared.pop("port", "")).split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    pairs = zip(hosts, ports, strict=True)
    return [
        {**shared, **({"host": host} if host else {}), **({"port": port} if port else {})}
        for host, port in pairs
    ]


async def _ask(server: dict[str, Any], query: Any, within_s: float) -> Any:
    try:
        async with asyncio.timeout(within_s):
            session = await psycopg.AsyncConnection.connect(**server, autocommit=True)
            async with session:
                return await (await session.execute(query)).fetchone()
    except (TimeoutError, psycopg.Error):
        return None
