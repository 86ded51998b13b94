"""The right to talk to a remote agent about a task: one worker's, by a hold that expires.

A hold has a number. A worker whose hold was taken over writes nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a.models import Mirror
from ledger.foundation.backoff import Backoff
from ledger.foundation.postgres import update_returning

BACKOFF = Backoff(first=timedelta(seconds=2), longest=timedelta(seconds=30))
MOST_COUNTED = 10  # polls without a change
HOLD = timedelta(seconds=60)
DUE = Q(is_over=False, look_at__lte=Now()) & (Q(busy_until=None) | Q(busy_until__lte=Now()))


def take(mirror: Mirror) -> Mirror | None:
    """Hold the mirror if it is due and free; the row as it is then, else ``None``."""
    free, until = Mirror.objects.filter(DUE, pk=mirror.pk), Now() + HOLD
    return update_returning(free, look_at=until, busy_until=until, hold=F("hold") + 1)


def release(mirror: Mirror) -> None:
    held(mirror).update(busy_until=None)


def held(mirror: Mirror) -> QuerySet[Mirror]:
    """The mirror's row, unless another worker has taken the hold over."""
    return Mirror.objects.filter(pk=mirror.pk, hold=mirror.hold)


def if_held(mirror: Mirror, write: Callable[[], None]) -> None:
    """Run ``write`` in a database transaction in which the hold cannot be taken over."""
    with atomic():
        if held(mirror).select_for_update().exists():
            write()


def poll_after(mirror: Mirror, wait: timedelta) -> Case:
    """A value for ``look_at``: ``wait`` from now, or sooner if a push came meanwhile."""
    return Case(When(look_at=mirror.look_at, then=Now() + wait), default=F("look_at"))
