"""Selection of the rows that a list shows, so that no agent pushes another's off it.

Each agent has its most urgent rows on the list; what it has beyond them is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber

# Rows of one agent on a list, while other agents have some too.
PER_AGENT = 25
MOST_ROWS = 500
# What waits for the viewer, the graver first: see ``viewers``.
URGENT_FIRST = ("rank", "expires_at", "pk")


@dataclass(frozen=True, slots=True)
class More:
    """The rows of one agent that wait beyond those that are shown."""

    agent: str  # the principal
    name: str
    tenant: str
    number: int
    kind: str  # "transaction" or "question"


@dataclass(frozen=True, slots=True)
class Share:
    """The rows to show, with the place of each among those of its agent, and the rest in numbers.

    The first row of an agent has the place 1.
    """

    places: dict[Any, int]
    more: list[More]
    keys: list[tuple[int, Any, Any]]  # rank, end and primary key of each row


def shared(rows: QuerySet[Any], *, agent: str, kind: str) -> Share:
    """The most urgent rows of each agent; one that is alone on the list has ``MOST_ROWS``.

    ``agent`` is the column with the principal; ``<agent>_name`` is its label.
    """
    share = _ranked(rows, agent, kind, PER_AGENT)
    is_alone = len({(more.tenant, more.agent) for more in share.more}) == 1 and (
        len(share.places) == PER_AGENT
    )
    return _ranked(rows, agent, kind, MOST_ROWS) if is_alone else share


def _ranked(rows: QuerySet[Any], agent: str, kind: str, per_agent: int) -> Share:
    same_agent = [F("tenant"), F(agent)]
    ranked = rows.annotate(
        place=Window(RowNumber(), partition_by=same_agent, order_by=URGENT_FIRST),
        total=Window(Count("pk"), partition_by=same_agent),
    ).values_list("pk", "place", "total", "tenant", agent, f"{agent}_name", "rank", "expires_at")
    shown = _first(ranked, per_agent)
    numbers = Counter((tenant, principal) for _, _, _, tenant, principal, *_ in shown)
    more = {
        (tenant, principal): More(principal, name, tenant, total - numbers[tenant, principal], kind)
        for _, _, total, tenant, principal, name, *_ in shown
        if total > numbers[tenant, principal]
    }
    places = {pk: place for pk, place, *_ in shown}
    keys = [(rank, expires_at, pk) for pk, *_, rank, expires_at in shown]
    return Share(places, list(more.values()), keys)


def _first(ranked: QuerySet[Any, Any], per_agent: int) -> list[tuple[Any, ...]]:
    """Those with a place up to ``per_agent``. Django takes longer to compile a filter by a window
    than PostgreSQL needs for all rows."""
    try:
        sql, parameters = ranked.query.sql_with_params()
    except EmptyResultSet:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT * FROM ({sql})
                AS ranked (pk, place, total, tenant, agent, name, rank, expires_at)
                WHERE place <= %s ORDER BY place, rank, expires_at, pk LIMIT {MOST_ROWS}""",
            [*parameters, per_agent],
        )
        shown: list[tuple[Any, ...]] = cursor.fetchall()
        return shown


def beyond_share(rows: QuerySet[Any], among: Collection[Any], *, agent: str) -> set[Any]:
    """Primary keys of those ``among`` the rows that the list does not show."""
    beyond = set()
    for tenant, principal in {(row.tenant, getattr(row, agent)) for row in among}:
        own = rows.filter(**{"tenant": tenant, agent: principal}).order_by(*URGENT_FIRST)
        first_beyond = own.values_list(*URGENT_FIRST)[PER_AGENT : PER_AGENT + 1].first()
        if (
            first_beyond is None
            or not rows.exclude(**{"tenant": tenant, agent: principal}).exists()
        ):
            continue
        beyond |= {
            row.pk
            for row in among
            if (row.tenant, getattr(row, agent)) == (tenant, principal)
            and (row.rank, row.expires_at, row.pk) >= first_beyond
        }
    return beyond
