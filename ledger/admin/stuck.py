"""The filter of what goes on for too long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from ledger.models import Delivery, DeliveryState, Event
from ledger.states import AT_WORK, EventKind, State

IN_DOUBT_FOR, ROLLING_BACK_FOR = timedelta(minutes=5), timedelta(minutes=1)


def _late() -> Q:
    return Q(state=State.PREPARED, expires_at__lte=Now())


def _lease_ran_out() -> Q:
    return Q(state__in=sorted(AT_WORK), lease_expires_at__lte=Now())


def _long_in_doubt() -> Q:
    fell = Event.objects.filter(
        subject=OuterRef("pk"), kind=EventKind.FELL_IN_DOUBT, at__lte=Now() - IN_DOUBT_FOR
    )
    return Q(Exists(fell), state=State.IN_DOUBT)


def _long_rolling_back() -> Q:
    lately = Event.objects.filter(subject=OuterRef("pk"), at__gt=Now() - ROLLING_BACK_FOR)
    return Q(~Exists(lately), state=State.ROLLING_BACK)


def _given_up() -> Q:
    subjects = Delivery.objects.filter(state=DeliveryState.GIVEN_UP).values("event__transaction")
    return Q(pk__in=subjects)


STUCK: dict[str, tuple[Any, Callable[[], Q]]] = {
    "late": (gettext_lazy("expired, and not ended"), _late),
    "lease": (gettext_lazy("lease ran out"), _lease_ran_out),
    "doubt": (gettext_lazy("in doubt > 5 min"), _long_in_doubt),
    "rollback": (gettext_lazy("rolling back > 1 min"), _long_rolling_back),
    "given_up": (gettext_lazy("a delivery was given up"), _given_up),
}


class StuckFilter(SimpleListFilter):
    """Filter by what is late, or at work for longer than it should be, by the database's clock."""

    title = gettext_lazy("delay")
    parameter_name = "stuck"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, label) for name, (label, _) in STUCK.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        choice = STUCK.get(self.value() or "")
        return queryset.filter(choice[1]()) if choice else queryset
