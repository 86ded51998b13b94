"""A brake for the tired hand: after several fast approvals in a row the next one is typed, and an
approval can be undone for a few seconds."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone

from approvals.models import Pace
from ledger.models import Tenant, Transaction
from ledger.states import State
from ledger.transactions import links_of, standing_approval, undo_until

FAST_S = 2.0  # seconds from opening an item to approving it
MOST = 1_000


def must_type(user: User, row: Transaction) -> bool:
    """True if this person has approved so fast, so often in a row, that this one has to be typed.

    Their tenant says how often; 0 stands for never.
    """
    most = (
        Tenant.objects.values_list("fast_approvals", flat=True).filter(pk=row.tenant).first() or 0
    )
    return 0 < most <= _fast_in_a_row(user)


def undo_seconds(tenant: str) -> int:
    """For how long an approval can be undone, by the tenant's setting."""
    return Tenant.objects.values_list("undo_seconds", flat=True).filter(pk=tenant).first() or 0


def undo_offered_until(row: Transaction, person: str) -> datetime | None:
    """The end of the time in which this principal can undo its approval; ``None`` if it cannot."""
    given = (decision.principal for decision in row.decisions.all())
    if row.state not in {State.PREPARED, State.APPROVED} or person not in given:
        return None
    vote = standing_approval(links_of(row.pk), person)
    until = None if vote is None else undo_until(vote)
    return until if until is not None and until > timezone.now() else None


def _fast_in_a_row(user: User) -> int:
    return Pace.objects.values_list("fast_in_a_row", flat=True).filter(user=user).first() or 0


def note_pace(user: User, seconds_shown: float | None, *, was_typed: bool) -> None:
    """Count an approval at the desk. One that was typed, or took its time, begins anew."""
    if seconds_shown is None and not was_typed:
        return
    is_fast = seconds_shown is not None and seconds_shown < FAST_S and not was_typed
    if not is_fast:
        Pace.objects.filter(user=user, fast_in_a_row__gt=0).update(fast_in_a_row=0)
    elif not Pace.objects.filter(user=user, fast_in_a_row__lt=MOST).update(
        fast_in_a_row=F("fast_in_a_row") + 1
    ):
        Pace.objects.get_or_create(user=user, defaults={"fast_in_a_row": 1})
