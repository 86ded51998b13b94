"""Git buses on the operations page: which can be reached, and what waits there for a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from a2a.doors.git_bus import origins
from a2a.doors.git_bus.models import BusRequest, GitBus, Progress
from approvals.presentation import in_words, kept_in_words

SHOWN = 20  # requests of one bus
WAITING = (Progress.LEFT, Progress.HELD, Progress.PROBLEM)


def seen_by(tenants: Iterable[str]) -> list[dict[str, Any]]:
    """The buses of these tenants, each with what waits there."""
    rows = GitBus.objects.without_secrets().filter(agent__tenant__in=tenants)
    buses = list(rows.select_related("agent").order_by("agent__tenant", "agent__slug"))
    waiting = _waiting(buses)
    return [
        {
            "row": bus,
            "waiting": waiting[bus.pk],
            "address": reverse("desk:connection-bus", args=[bus.pk]),
        }
        for bus in buses
    ]


def _waiting(buses: list[GitBus]) -> dict[int, list[dict[str, Any]]]:
    """Requests that a person has to look at, the newest first."""
    stuck = set(BusRequest.objects.filter(bus__in=buses).stuck().values_list("pk", flat=True))
    waiting: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for bus in buses:
        rows = BusRequest.objects.filter(Q(progress__in=WAITING) | Q(pk__in=stuck), bus=bus)
        for row in rows.select_related("task", "admission").order_by("-pk")[:SHOWN]:
            address = reverse("desk:bus-request", args=[row.pk])
            waiting[bus.pk].append({"row": row, "why": _why(row), "address": address})
    return waiting


def _why(row: BusRequest) -> str:
    if row.progress == Progress.ELSEWHERE:
        who = row.processed_by or _("another participant")
        return _("Claimed by {who}, and not answered.").format(who=who)
    if row.progress == Progress.HELD:
        held = _("For {method}. A person is asked whether to take it.").format(method=row.method)
        return f"{held} {in_words(origins.trust_in(row))}"
    return kept_in_words(row, "problem") or _("Left in the inbox.")
