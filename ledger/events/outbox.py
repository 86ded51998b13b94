"""The outbox: messages to deliver, written with the event that causes them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from django.db import models
from django.db.models import F
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger.backoff import Backoff
from ledger.characters import without_nul
from ledger.models import Delivery, DeliveryState, Event

logger = logging.getLogger(__name__)

BACKOFF = Backoff(first=timedelta(seconds=2), longest=timedelta(minutes=10))
MOST_ATTEMPTS = 30  # about four hours
# No other worker tries the same delivery within this time.
SENDING_TAKES_AT_MOST = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Owed:
    """One message to one recipient, and from when on."""

    recipient: str
    not_before: datetime | None = None


class NotNow(Exception):
    """The recipient asks to wait: sending is postponed, which does not count as a failure."""

    def __init__(self, wait: timedelta, why: str) -> None:
        super().__init__(why)
        self.wait = wait


class Channel(Protocol):
    """A delivery channel. Its application registers it in ``AppConfig.ready()``."""

    name: str

    def wants(self, kind: str) -> bool:
        """Whether events of this kind concern anybody on this channel."""

    def address(self, event: Event) -> Iterable[Owed]:
        """The recipients of the event, one delivery each. May be none."""

    def send(self, delivery: Delivery) -> None:
        """Bring the recipient up to the present state of the subject. May run twice.

        Raises ``NotNow``, and anything else on failure.
        """


channels: dict[str, Channel] = {}


def register(channel: Channel) -> None:
    channels[channel.name] = channel


def wanted_for(kind: str) -> list[str]:
    return [name for name, channel in channels.items() if channel.wants(kind)]


def put_in_outbox(event: Event, addressed: Iterable[tuple[str, str]] = ()) -> list[int]:
    """Insert one delivery per channel that wants this event, and one per addressed recipient.

    ``addressed`` has pairs of a channel and a recipient. Returns the ids.
    """
    owed = [Delivery(event=event, channel=name) for name in wanted_for(event.kind)]
    owed += [
        Delivery(event=event, channel=name, recipient=recipient) for name, recipient in addressed
    ]
    return [delivery.pk for delivery in Delivery.objects.bulk_create(owed)] if owed else []


def overdue(limit: int = 500) -> list[int]:
    return list(
        Delivery.objects.filter(state=DeliveryState.WAITING, next_attempt_at__lte=Now())
        .order_by("next_attempt_at")
        .values_list("pk", flat=True)[:limit]
    )


def deliver(delivery_id: int) -> list[int]:
    """Address or send one delivery, if it is due and no other worker has claimed it.

    Returns the deliveries that are due because this one was addressed.
    """
    delivery = _claim(delivery_id)
    if delivery is None:
        return []
    try:
        channel = channels[delivery.channel]
        if delivery.recipient:
            channel.send(delivery)
            _still_claimed(delivery).update(state=DeliveryState.DONE, done_at=Now(), error="")
        else:
            return _address(delivery, channel)
    except NotNow as postponement:
        _postpone(delivery, postponement.wait, str(postponement))
    except Exception as failure:
        logger.warning("delivery %s (%s): %s", delivery.pk, delivery.channel, failure)
        _fail(delivery, failure)
    return []


def retry(delivery_id: int) -> None:
    """Make a delivery due at once that is waiting or given up."""
    Delivery.objects.filter(pk=delivery_id).exclude(state=DeliveryState.DONE).update(
        state=DeliveryState.WAITING, next_attempt_at=Now(), failures=0
    )


def _claim(delivery_id: int) -> Delivery | None:
    due = Delivery.objects.filter(
        pk=delivery_id, state=DeliveryState.WAITING, next_attempt_at__lte=Now()
    )
    later = Now() + SENDING_TAKES_AT_MOST
    if not due.update(attempts=F("attempts") + 1, next_attempt_at=later):
        return None
    return Delivery.objects.select_related("event__transaction").get(pk=delivery_id)


def _still_claimed(delivery: Delivery) -> models.QuerySet[Delivery]:
    """The row, unless another worker has claimed it since: then that worker's result counts."""
    return Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts)


def _address(delivery: Delivery, channel: Channel) -> list[int]:
    rows = [
        Delivery(
            event=delivery.event,
            channel=delivery.channel,
            recipient=owed.recipient,
            next_attempt_at=owed.not_before or Now(),
        )
        for owed in channel.address(delivery.event)
    ]
    with atomic():
        Delivery.objects.bulk_create(rows, ignore_conflicts=True)
        _still_claimed(delivery).update(state=DeliveryState.DONE, done_at=Now(), error="")
    if not rows:
        return []
    due = Delivery.objects.filter(
        event=delivery.event,
        channel=delivery.channel,
        state=DeliveryState.WAITING,
        next_attempt_at__lte=Now(),
    )
    return list(due.order_by("pk").values_list("pk", flat=True))


def _postpone(delivery: Delivery, wait: timedelta, why: str) -> None:
    _still_claimed(delivery).update(next_attempt_at=Now() + wait, error=why[:2000])


def _fail(delivery: Delivery, failure: Exception) -> None:
    failures = delivery.failures + 1
    given_up = failures >= MOST_ATTEMPTS
    _still_claimed(delivery).update(
        state=DeliveryState.GIVEN_UP if given_up else DeliveryState.WAITING,
        failures=failures,
        next_attempt_at=Now() + BACKOFF.wait_with_jitter(failures),
        error=without_nul(f"{type(failure).__name__}: {failure}"[:2000]),
    )
