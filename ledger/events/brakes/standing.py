"""Brakes that stand, and the refusal of what they stop."""

from __future__ import annotations

import math
from typing import Protocol

from django.db import connection
from django.db.models import F
from django.utils import timezone

from ledger.errors import Paused, Sentence
from ledger.models import Brake

UNKNOWN_S = 60  # until a brake without an end is asked about again


class Stoppable(Protocol):
    """A transaction, or a row of its columns."""

    tenant: str
    proposed_by: str
    tool: str


def brake_over(tenant: str, agent: str, tool: str) -> Brake | None:
    """Of the brakes that stop it now, the one that stands longest."""
    standing = Brake.objects.uncounted().standing().over(tenant, agent, tool)
    return standing.order_by(F("until").desc(nulls_first=True), "pk").first()


def sentence_of(brake: Brake) -> Sentence:
    """The name of the person, the end and the reason; of a hold, what holds the tool."""
    if brake.is_hold:
        return Sentence("{tool} is held. {why}", tool=brake.tool, why=Sentence(brake.why))
    if brake.until is None:
        return Sentence("Stopped by {name}: {why}", name=brake.by_name, why=brake.why)
    until = f"{brake.until:%Y-%m-%d %H:%M}"
    return Sentence(
        "Stopped by {name} until {until} UTC: {why}",
        name=brake.by_name,
        until=until,
        why=brake.why,
    )


def refuse_stopped(tenant: str, agent: str, tool: str, row: object = None) -> None:
    """Raises ``Paused`` if a brake stops it; ``row`` is its transaction, if there is one."""
    brake = brake_over(tenant, agent, tool)
    if brake is None:
        return
    until = brake.until
    left = (until - timezone.now()).total_seconds() if until else UNKNOWN_S
    raise Paused(
        sentence_of(brake),
        retry_after_s=max(1, math.ceil(left)),
        snapshot=row,
        until=until.isoformat() if until else None,
    )


def refuse_to_begin(row: Stoppable) -> None:
    """Raises ``Paused``. Else no brake is put until the caller's database transaction ends.

    For what begins otherwise than by a statement with ``may_begin()``.
    """
    with connection.cursor() as cursor:
        names = (row.tenant, row.proposed_by, row.tool)
        cursor.execute("SELECT ledger_is_stopped(%s, %s, %s)", names)
        [is_stopped] = cursor.fetchone()
    if is_stopped:
        refuse_stopped(*names, row=row)
        raise Paused(snapshot=row)  # lapsed between the two
