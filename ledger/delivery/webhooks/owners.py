"""Alerts to the services that own tools, about their transactions.

The webhook of a service is signed and sent like an agent's; Slack has routes by owner. Told is
what needs somebody of the service: nobody knows the outcome, it failed, a receipt came late, it is
stuck. All services are told when the audit log is not signed any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings

from ledger.delivery.webhooks import channel
from ledger.events import ChangeKind
from ledger.events.outbox import HttpChannel, NotNow, Owed
from ledger.foundation.http_out import Post
from ledger.models import Delivery, Event, Owner, Transaction
from ledger.states import EventKind, State

# The kind of event → the type of the alert.
ALERTS: dict[str, str] = {
    EventKind.FELL_IN_DOUBT: "in_doubt",
    EventKind.FAILED: "failed",
    EventKind.LATE_RECEIPT: "late_receipt",
    EventKind.LATE_RECEIPT_SETTLED: "late_receipt",
}
# After these a transaction is undone; a later delivery checks whether that is stuck.
MAY_GET_STUCK = frozenset(
    {
        EventKind.REJECTED,
        EventKind.SENT_BACK,
        EventKind.OUTDATED,
        EventKind.EXPIRED,
        EventKind.CANCELED,
        EventKind.HOLD_LAPSED,
        EventKind.FAILED,
        EventKind.DISPROVED,
        EventKind.COMPENSATION_STARTED,
    }
)
LOG_STOPPED = "log_not_signed"  # the alert that concerns the whole installation
CHECK_AFTER = timedelta(minutes=2)
CHECK_AGAIN_AFTER = timedelta(minutes=5)
STUCK_AFTER = 3  # attempts, as on the desk
UNDOING = frozenset({State.ROLLING_BACK, State.COMPENSATING})


class OwnerChannel(HttpChannel):
    name = "owner"

    def wants(self, kind: str) -> bool:
        return kind in ALERTS or kind in MAY_GET_STUCK or kind == ChangeKind.LOG_STOPPED

    def address(self, event: Event) -> Iterable[Owed]:
        if event.kind == ChangeKind.LOG_STOPPED:
            yield from (Owed(f"{LOG_STOPPED}:{owner.pk}") for owner in Owner.objects.all())
            return
        row = event.transaction
        if row is None:
            return
        owner = Owner.objects.filter(tenant=row.tenant, service=row.owner_service).first()
        if owner is None:
            return
        if event.kind in ALERTS:
            yield Owed(f"{ALERTS[event.kind]}:{owner.pk}")
        if event.kind in MAY_GET_STUCK:
            yield Owed(f"stuck:{owner.pk}", event.at + CHECK_AFTER)

    def request(self, delivery: Delivery) -> Post | None:
        """One alert. Raises ``NotNow`` and ``SecretMissing``."""
        alert, _, owner_id = delivery.recipient.partition(":")
        owner = Owner.objects.filter(pk=owner_id).first()
        row = delivery.event.transaction
        if owner is None:
            return None  # removed in the meantime: nothing to deliver
        if alert == LOG_STOPPED:
            body = _alert_of_log(delivery.event, owner)
        elif row is None or (alert == "stuck" and not _is_stuck(row)):
            return None
        else:
            body = _alert(alert, row)
        return channel.signed(owner.webhook_url, owner.webhook_secret, f"msg_{delivery.pk}", body)


def _is_stuck(row: Transaction) -> bool:
    """True if undoing failed often. Raises ``NotNow`` while it goes on and has not yet."""
    if row.state not in UNDOING:
        return False
    if row.attempts < STUCK_AFTER:
        raise NotNow(CHECK_AGAIN_AFTER, "It is being undone, and not stuck yet.")
    return True


def _alert_of_log(event: Event, owner: Owner) -> dict[str, object]:
    details = json.loads(event.details)
    data = {
        "tenant": owner.tenant.slug,
        "owner_service": owner.service,
        "uncovered_since": details["since"],
        "desk": f"{settings.PUBLIC_URL}/ops/",
    }
    return {"type": f"owner.{LOG_STOPPED}", "timestamp": event.at.isoformat(), "data": data}


def _alert(alert: str, row: Transaction) -> dict[str, object]:
    payload = channel.payload_of(row, "")
    owner_fields = {
        "owner_service": row.owner_service,
        "tenant": row.tenant,
        "action_summary": row.action_summary,
        "operation_key": row.operation_key,
        "attempts": row.attempts,
        "desk": f"{settings.PUBLIC_URL}/transactions/{row.pk}/",
    }
    data = payload["data"]
    assert isinstance(data, dict)
    return {**payload, "type": f"owner.{alert}", "data": {**data, **owner_fields}}
