"""The limits: what each counts, its default, and what operators set for a tenant or an agent.

The limit of an agent is what operators set at the agent (admin), else what the installation sets
(``ASSENT_LIMITS``), else the default below. That of a tenant likewise.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from django.conf import settings
from django.db import connection
from django.db.models import TextChoices

from ledger.errors import Sentence
from ledger.foundation.bounded import Bounded

# Seconds after which a changed limit counts in every process.
REREAD_S = 5.0
OFF = "off"  # ASSENT_LIMITS: no limit at all, for benchmarks


class Of(TextChoices):
    """The one that has the limit."""

    AGENT = "agent", Sentence("agent")
    TENANT = "tenant", Sentence("tenant")
    TOKEN = "token", Sentence("token")
    ADDRESS = "address", Sentence("address")


class Limit(StrEnum):
    """Kind of limit. The values are stable: settings, metrics and error bodies have them."""

    PENDING = "pending"
    QUESTIONS = "questions"
    TASKS = "tasks"
    PLANS = "plans"
    WAITS = "waits"
    REQUESTS = "requests"
    BYTES = "bytes"
    SIGN_INS = "sign_ins"
    REJECTIONS = "rejections"


@dataclass(frozen=True, slots=True)
class Meaning:
    """``unit`` completes “at most 500 …”; ``retry_s`` is when a client may ask again."""

    unit: Sentence
    retry_s: int
    defaults: Mapping[Of, int]


MEANINGS: dict[Limit, Meaning] = {
    Limit.PENDING: Meaning(
        Sentence("transactions that wait for sign-off"), 15, {Of.AGENT: 500, Of.TENANT: 5_000}
    ),
    Limit.QUESTIONS: Meaning(
        Sentence("questions that wait for an answer"), 15, {Of.AGENT: 100, Of.TENANT: 1_000}
    ),
    Limit.TASKS: Meaning(
        Sentence("tasks that have not ended"), 15, {Of.AGENT: 1_000, Of.TENANT: 10_000}
    ),
    Limit.PLANS: Meaning(Sentence("plans of tools at once"), 1, {Of.AGENT: 4, Of.TENANT: 8}),
    Limit.WAITS: Meaning(
        Sentence("long-polls and streams at once"),
        2,
        {Of.AGENT: 200, Of.TENANT: 2_000, Of.ADDRESS: 2_000},
    ),
    Limit.REQUESTS: Meaning(
        Sentence("requests a second"),
        1,
        {Of.TOKEN: 300, Of.AGENT: 500, Of.TENANT: 2_000, Of.ADDRESS: 100},
    ),
    Limit.BYTES: Meaning(
        Sentence("MiB of requests a day"), 60, {Of.AGENT: 1_024, Of.TENANT: 10_240}
    ),
    Limit.SIGN_INS: Meaning(Sentence("failed sign-ins a minute"), 6, {Of.ADDRESS: 20}),
    Limit.REJECTIONS: Meaning(Sentence("rejected tasks a minute"), 6, {Of.AGENT: 300}),
}
# Limits that operators set in the admin, for one agent or tenant.
SETTABLE = tuple(
    limit for limit, meaning in MEANINGS.items() if {Of.AGENT, Of.TENANT} <= set(meaning.defaults)
)
MOST = 2**31 - 1


def default(limit: Limit, of: Of) -> int:
    """The installation's limit: from ``ASSENT_LIMITS``, else from the table above."""
    return _installation().get((limit, of), MEANINGS[limit].defaults[of])


@cache
def _installation() -> dict[tuple[Limit, Of], int]:
    return parsed(settings.LIMITS)


def parsed(lines: list[str]) -> dict[tuple[Limit, Of], int]:
    """``["agent.pending=1000"]`` as a table; ``["off"]`` as one without bounds.

    Raises ``ValueError`` for what is no limit, or no number.
    """
    if lines == [OFF]:
        return {(limit, of): MOST for limit in Limit for of in MEANINGS[limit].defaults}
    table = {}
    for line in lines:
        name, _, number = line.partition("=")
        of, _, limit = name.strip().partition(".")
        if not number.strip().isdecimal() or not 0 < int(number) <= MOST:
            raise ValueError(f"{line!r} is not <of>.<limit>=<number>")
        key = (Limit(limit), Of(of))
        if key[1] not in MEANINGS[key[0]].defaults:
            raise ValueError(f"there is no limit {name.strip()!r}")
        table[key] = int(number)
    return table


# --- what operators set ------------------------------------------------------------------------

Overrides = Mapping[str, int]
_read: Bounded[tuple[str, str], tuple[float, Overrides, Overrides]] = Bounded(10_000)


def most(limit: Limit, of: Of, tenant: str, slug: str = "") -> int:
    """The limit of an agent or of its tenant, as last read; asks no database."""
    own = _read.get((tenant, slug))
    overrides: Overrides = {}
    if own is not None:
        overrides = own[1] if of is Of.AGENT else own[2] if of is Of.TENANT else {}
    return overrides.get(limit, default(limit, of))


def refresh(tenant: str, slug: str) -> None:
    """Read what operators set for the agent and its tenant, unless that was done just now."""
    known = _read.get((tenant, slug))
    if known is not None and time.monotonic() - known[0] < REREAD_S:
        return
    with connection.cursor() as cursor:
        cursor.execute(_OVERRIDES, [tenant, slug, tenant])
        agent, of_tenant = cursor.fetchone()
    _read.put((tenant, slug), (time.monotonic(), _numbers(agent), _numbers(of_tenant)))


_OVERRIDES = """
    SELECT (SELECT limits::text FROM ledger_agent WHERE tenant_id = %s AND slug = %s),
           (SELECT limits::text FROM ledger_tenant WHERE slug = %s)
"""


def _numbers(text: str | None) -> Overrides:
    values = json.loads(text) if text else {}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def forget() -> None:
    """For tests: read everything anew."""
    _read.clear()
    _installation.cache_clear()
