"""A brake for the tired hand: after several fast approvals in a row the next one is typed."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import F

from approvals.models import Pace
from ledger.models import Tenant, Transaction

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


def _fast_in_a_row(user: User) -> int:
    return Pace.objects.values_list("fast_in_a_row", flat=True).filter(user=user).first() or 0


def note(user: User, seconds_shown: float | None, *, was_typed: bool) -> None:
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
