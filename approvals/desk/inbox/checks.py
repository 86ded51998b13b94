"""For a second pair of eyes: changes of set-up, and decisions of supervisors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from approvals.desk.inbox import inbox
from approvals.desk.viewers import Viewer
from approvals.models import Role
from ledger.events import four_eyes
from ledger.models import ChangeRequest, RequestState, Review

MOST_REVIEWS = 100  # that are counted
MOST_CHANGES = 3  # that are listed; they stand before what waits for managers


class Counts(NamedTuple):
    """The numbers behind the badge and the tab title, of what waits for one person."""

    rows: int  # to decide, settle or answer
    changes: int  # to confirm
    reviews: int  # at most ``MOST_REVIEWS``

    @property
    def total(self) -> int:
        return sum(self)


@dataclass(frozen=True, slots=True)
class Sample:
    """The decisions of one supervisor that wait for a review."""

    agent: str
    number: int
    oldest_at: datetime


def counts(viewer: Viewer) -> Counts:
    return Counts(inbox.count(viewer), changes(viewer).count(), len(_sampled(viewer)))


def changes(viewer: Viewer) -> QuerySet[ChangeRequest]:
    """Changes for this operator to confirm as the second one, or to read; the oldest first."""
    ours = _open().filter(tenant__in=viewer.with_role(Role.OPERATOR))
    own = Q(asked_by=viewer.principal) | Q(concerns=viewer.principal)
    return ours.exclude(own).order_by("pk")


def _open() -> QuerySet[ChangeRequest]:
    """Of the kinds that are installed."""
    waiting = Q(state=RequestState.WAITING, expires_at__gt=Now())
    rows = ChangeRequest.objects.filter(kind__in=four_eyes.KINDS)
    return rows.filter(waiting | Q(state=RequestState.ALONE))


def samples(viewer: Viewer) -> list[Sample]:
    """By supervisor, whose reviews wait for this manager; the oldest first."""
    by_agent: dict[str, list[datetime]] = {}
    for agent, at in _sampled(viewer):
        by_agent.setdefault(agent, []).append(at)
    return [Sample(agent, len(times), times[0]) for agent, times in by_agent.items()]


def _sampled(viewer: Viewer) -> list[tuple[str, datetime]]:
    rows = Review.objects.waiting(viewer.with_role(Role.APPROVER)).order_by("pk")
    named = rows.values_list("decision__principal_name", "decision__at")
    return list(named[:MOST_REVIEWS]) if viewer.with_role(Role.APPROVER) else []


def concerned(tenants: frozenset[str]) -> Iterator[str]:
    """Principals for whom the number of changes depends on more than their roles."""
    rows = _open().filter(tenant__in=tenants)
    for asked_by, concerns in rows.values_list("asked_by", "concerns"):
        yield from (asked_by, concerns)
