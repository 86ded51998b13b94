"""Lets the product judge each request at its time, with only what came before it counted.

Requests and their outcomes are written without the triggers of the log, as the past cannot be
lived through; what they are counted to and how they are judged is the product's.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.usual import errors
from bench.usual.requests import DAYS, PROFILES, Profile, Request, requests_of

RUNS = 3
KNOWN_FROM = 15  # the day from which a burst or a stranger is one
PLANT_FROM = 30  # requests, from which slips and large amounts are planted
PLANT_EVERY = 6
TOOL = "pay_back"

Judged = dict[tuple[str, str], Counter[bool]]


def measure(runs: int = RUNS) -> dict[str, float]:
    """Per cent of ordinary requests that are marked, and of planted errors that are."""
    judged: Judged = defaultdict(Counter)
    for run in range(runs):
        for profile in PROFILES:
            _live_through(profile, random.Random(f"{run} {profile.name}"), judged)
    errors_of_any_kind: Counter[bool] = sum(
        (counts for (group, _), counts in judged.items() if group == "error"), Counter()
    )
    judged["error", "any"] = errors_of_any_kind
    return {
        f"{group}, {name} (of {counts.total():,}) %": 100 * counts[True] / counts.total()
        for (group, name), counts in sorted(judged.items(), key=lambda pair: pair[0][0])
    }


def _live_through(profile: Profile, dice: random.Random, judged: Judged) -> None:
    """Its ordinary requests in their order, with a burst among them and an error now and then."""
    from ledger.reporting.usage import usual_of

    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = midnight - timedelta(days=DAYS)
    tenant = f"{profile.name.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
    known_from = begin + timedelta(days=KNOWN_FROM)
    ordinary = list(requests_of(profile, dice, begin))
    burst = errors.burst(profile, dice, _time_of_burst(dice, ordinary, known_from))
    for place, request in enumerate(ordinary):
        if burst and request.at > burst[0].at:
            rows = [_happens(tenant, dice, each) for each in burst]
            judged["error", "burst"].update(usual_of(row).is_unusual for row in rows)
            burst = []
        usual = usual_of(_happens(tenant, dice, request))
        judged["ordinary", "all"][usual.is_unusual] += 1
        judged["ordinary", profile.name][usual.is_unusual] += 1
        for reason in ("slip", "burst", "is_beyond", "is_new_subject"):
            judged["ordinary, for", reason][bool(getattr(usual, reason))] += 1
        if place >= PLANT_FROM and place % PLANT_EVERY == 0:
            for group, kind, each in _planted(profile, dice, request, request.at > known_from):
                judged[group, kind][usual_of(_row(tenant, each)).is_unusual] += 1


def _time_of_burst(dice: random.Random, ordinary: list[Request], known_from: datetime) -> datetime:
    """On some day once the agent has been at work for six days; within one hour."""
    first = max(known_from, ordinary[0].at + timedelta(days=6))
    day = dice.choice([each.at for each in ordinary if each.at > first])
    return day.replace(hour=10, minute=dice.randint(0, 25))


def _planted(
    profile: Profile, dice: random.Random, like: Request, is_known: bool
) -> Iterator[tuple[str, str, Request]]:
    about = (profile, dice, like.at, like.subject)
    if profile.amount is not None:
        kind, slip = dice.choice(list(errors.SLIPS.items()))
        yield "error", kind, errors.with_slip(slip, *about, is_named=True)
        yield "error", "amount beyond the range", errors.beyond(*about)
        silent = errors.with_slip(slip, *about, is_named=False)
        yield "not to be found", "slip of which the words say nothing", silent
    if profile.recurs and is_known:
        yield "error", "a stranger where subjects recur", errors.stranger(*about[:3])


# --- the past -------------------------------------------------------------------------------------


def _row(tenant: str, request: Request) -> Any:
    from ledger.models import Transaction
    from ledger.reporting.usage.subjects import first_id_at
    from ledger.states import State

    name = uuid.uuid4()
    return Transaction(
        pk=uuid.UUID(int=first_id_at(request.at).int | name.int >> 48),
        tenant=tenant,
        state=State.PREPARED,
        proposed_by=f"agent:{tenant}/agent",
        tool=TOOL,
        payload={},
        arguments={"name": request.subject},
        operation_key=f"{TOOL}:{tenant}:{name.hex}",
        action_summary=f"Pay {request.amount} {request.currency} to {request.subject}",
        stated_reason=request.reason,
        amount=request.amount,
        currency="" if request.amount is None else request.currency,
        created_at=request.at,
        expires_at=request.at + timedelta(days=1),
        retain_until=request.at + timedelta(days=365),
    )


def _happens(tenant: str, dice: random.Random, request: Request) -> Any:
    """It is proposed and counted; what became of it is counted with the next request."""
    from django.db import connection

    from ledger.reporting.usage import counting

    row = _row(tenant, request)
    ended = dice.choices(["approved", "rejected", "expired"], [90, 6, 4])[0]
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        row.save(force_insert=True)
        _event(row, "prepared", 0)
        cursor.execute("SET session_replication_role = DEFAULT")
        while counting.count_batch():
            pass
        cursor.execute("SET session_replication_role = replica")
        _event(row, ended, 1)
        cursor.execute("SET session_replication_role = DEFAULT")
    return row


def _event(row: Any, kind: str, seq: int) -> None:
    from ledger.models import Event

    Event.objects.create(
        subject=row.pk,
        transaction=row,
        tenant=row.tenant,
        seq=seq,
        kind=kind,
        to_state=kind,
        principal="user:1" if seq else row.proposed_by,
        at=row.created_at + timedelta(minutes=seq),
    )
