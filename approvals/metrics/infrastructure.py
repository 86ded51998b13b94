"""Figures of the installation: processes, queues, the outbox, the database, the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import django_rq
from django.conf import settings
from django.db import connection
from django.db.models import Count, Min, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from redis import RedisError

from a2a.models import Question
from approvals import processes
from approvals.metrics.metric import (
    Metric,
    Tenants,
    age,
    labelled,
    single,
)
from ledger import workers
from ledger.api.waiting import waiters
from ledger.delivery import siem
from ledger.foundation import liveness
from ledger.foundation.postgres import sessions_allowed
from ledger.models import (
    Delivery,
    DeliveryState,
    Event,
    Transaction,
)
from ledger.proof.log import checkpoints
from ledger.states import State

# What is not ours has other names, or none.
SESSIONS = """
    SELECT CASE WHEN application_name LIKE 'assent %' THEN substr(application_name, 8)
        ELSE 'other' END, count(*)
    FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1 ORDER BY 1
"""


def infrastructure(tenants: Tenants) -> Iterator[Metric]:
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING)
    given_up = Delivery.objects.filter(state=DeliveryState.GIVEN_UP)
    if tenants is not None:
        waiting, given_up = (rows.filter(event__tenant__in=tenants) for rows in (waiting, given_up))
    counts = [("waiting", waiting.count()), ("given_up", given_up.count())]
    yield labelled("assent_deliveries", "Messages owed to the outside.", "state", counts)
    due = list(_due_by_channel(waiting))
    backlog = [(channel, number) for channel, number, _ in due]
    yield labelled("assent_delivery_backlog", "Messages that are due.", "channel", backlog)
    oldest = [(channel, age(since) or 0.0) for channel, _, since in due]
    yield labelled(
        "assent_delivery_late_seconds", "By how much the oldest is late.", "channel", oldest
    )
    yield single("assent_sweeper_lag_seconds", "By how much due work is late.", _lag())
    beat = workers.last_beat()
    yield single("assent_sweeper_silent_seconds", "Since the sweeper's last round.", age(beat))
    yield labelled(
        "assent_work_late_seconds",
        "How long the oldest work that is due waits for a worker.",
        "queue",
        [(queue, age(since) or 0.0) for queue, since in _oldest_work()],
    )
    last = checkpoints.latest()
    yield single(
        "assent_checkpoint_age_seconds", "Since the last audit checkpoint.", age(last and last.at)
    )
    yield single(
        "assent_events_uncovered_seconds",
        "Age of the oldest event that is under no checkpoint.",
        age(checkpoints.uncovered_since()) or 0.0,
    )
    yield single(
        "assent_siem_behind_seconds",
        "Age of the oldest event that the SIEM has not taken.",
        (age(siem.behind_since()) or 0.0) if settings.SIEM_URL else None,
    )
    yield labelled("assent_queue_jobs", "Jobs in the queues.", "queue", _queues())
    yield labelled("assent_processes", "Processes that live.", "kind", _processes())
    yield from _waiters()
    yield from _sessions()


def _oldest_work() -> Iterator[tuple[str, datetime | None]]:
    """Per queue of the workers, since when its oldest work waits to be begun."""
    rows = Transaction.objects
    signed_off = rows.begun_by_nobody().aggregate(
        since=Min(Coalesce("next_attempt_at", "decided_at"))
    )["since"]
    in_doubt = rows.inquiry_due().aggregate(since=Min("next_attempt_at"))["since"]
    yield "commit", min((at for at in (signed_off, in_doubt) if at is not None), default=None)
    # Work that nobody has tried yet has been due since its last event.
    events = Event.objects.filter(subject=OuterRef("pk")).order_by("-seq").values("at")[:1]
    due_since = Coalesce("next_attempt_at", "lease_expires_at", Subquery(events))
    for queue, state in (("roll_back", State.ROLLING_BACK), ("compensate", State.COMPENSATING)):
        yield queue, rows.work_due(state).aggregate(since=Min(due_since))["since"]


def _processes() -> list[tuple[str, int]]:
    """Every kind is named, also one of which none lives; nothing while Redis does not answer."""
    counts = liveness.counts()
    kinds = [process.name for process in processes.PROCESSES if process is not processes.MIGRATE]
    return [] if counts is None else [(kind, counts[kind]) for kind in kinds]


def _waiters() -> Iterator[Metric]:
    counts = waiters.in_all_processes()
    if counts is not None:
        by_kind = [(kind.value, number) for kind, number in counts.items()]
        yield labelled("assent_waiters", "Who waits at the web processes.", "kind", by_kind)


def _sessions() -> Iterator[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(SESSIONS)
        counts = cursor.fetchall()
    yield labelled("assent_database_sessions", "Sessions of the database.", "process", counts)
    yield single(
        "assent_database_sessions_allowed", "As many may be open.", sessions_allowed(connection)
    )


def _due_by_channel(waiting: QuerySet[Delivery]) -> QuerySet[Delivery, tuple[str, int, datetime]]:
    """Per channel how many deliveries are due, and since when the oldest."""
    due = waiting.filter(next_attempt_at__lte=Now()).values_list("channel")
    return due.annotate(number=Count("pk"), since=Min("next_attempt_at")).order_by("channel")


def _lag() -> float:
    """Seconds by which the oldest due work is late; 0 when nothing is due."""
    due = [
        Transaction.objects.due().aggregate(at=Min("expires_at"))["at"],
        Question.objects.due().aggregate(at=Min("expires_at"))["at"],
        Delivery.objects.filter(state=DeliveryState.WAITING, next_attempt_at__lte=Now()).aggregate(
            at=Min("next_attempt_at")
        )["at"],
    ]
    return max((age(at) or 0.0 for at in due if at is not None), default=0.0)


def _queues() -> list[tuple[str, int]]:
    try:
        return [(name, int(django_rq.get_queue(name).count)) for name in settings.RQ_QUEUES]
    except RedisError:
        return []
