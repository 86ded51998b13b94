"""Messages of the outbox that did not arrive, with their recipients in words."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from ledger.models import Delivery

SHOWN = 50


def owed(tenants: frozenset[str], **conditions: Any) -> list[Delivery]:
    """Deliveries of these tenants, newest first; each gets ``to``, the text of its recipient."""
    rows = Delivery.objects.filter(event__tenant__in=tenants, **conditions).select_related("event")
    deliveries = list(rows.order_by("-pk")[:SHOWN])
    places = _places_of(deliveries)
    for delivery in deliveries:
        delivery.to = places.get(delivery.pk) or f"{delivery.channel} {delivery.recipient}"  # type: ignore[attr-defined]
    return deliveries


def _places_of(deliveries: list[Delivery]) -> dict[int, str]:
    """Places in Slack, in words, by the primary key of the delivery."""
    if not apps.is_installed("approvals.slack"):
        return {}
    from approvals.slack.messages.recipients import places_of

    return places_of(deliveries)
