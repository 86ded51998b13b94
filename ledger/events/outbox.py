"""The outbox: messages to deliver, written with the event that causes them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db import connection, models
from django.db.models import F
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger.foundation import http_out
from ledger.foundation.backoff import Backoff
from ledger.foundation.characters import without_nul
from ledger.foundation.http_out import Post
from ledger.foundation.postgres import use_prepared_statements
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
        """True if events of this kind concern anybody on this channel."""

    def address(self, event: Event) -> Iterable[Owed]:
        """The recipients of the event, one delivery each. May be none."""

    def send(self, delivery: Delivery) -> None:
        """Bring the recipient up to the present state of the subject. May run twice.

        Raises ``NotNow``, and anything else on failure.
        """


class HttpChannel:
    """A channel that sends each message as one POST. A courier has many of them in flight."""

    def request(self, delivery: Delivery) -> Post | None:
        """The request to send; ``None`` if nothing is left to deliver. Raises like ``send``."""
        raise NotImplementedError

    def accepted(self, deliveries: Sequence[Delivery]) -> None:
        """Note what there is to note about requests that the receiver took, if anything."""

    def is_gone(self, delivery: Delivery, status: int) -> bool:
        """True if the receiver, by its answer, is gone for good: nothing is delivered any more."""
        return False

    def send(self, delivery: Delivery) -> None:
        """Raises what ``request`` and ``safe_http.deliver`` raise."""
        if (post := self.request(delivery)) is not None:
            http_out.deliver(post.url, post.body, post.headers)
            self.accepted([delivery])


channels: dict[str, Channel] = {}
_conditions: dict[str, str] = {}


def register(channel: Channel, *, only_if: str = "") -> None:
    """``only_if`` is SQL on the row ``event``: where it is false, nobody is to be told."""
    channels[channel.name] = channel
    if only_if:
        _conditions[channel.name] = only_if


def wanted_for(kind: str) -> list[str]:
    return [name for name, channel in channels.items() if channel.wants(kind)]


def put_in_outbox(event: Event, addressed: Iterable[tuple[str, str]] = ()) -> list[int]:
    """Insert one delivery per channel that wants this event, and one per addressed recipient.

    ``addressed`` has pairs of a channel and a recipient. Returns the ids.
    """
    owed = [*((name, "") for name in wanted_for(event.kind)), *addressed]
    if not owed:
        return []
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(
            insert_sql("ledger_event event, unnest(%s::text[], %s::text[])")
            + " AND event.id = %s RETURNING id",
            [*map(list, zip(*owed, strict=True)), event.pk],
        )
        return [delivery_id for (delivery_id,) in cursor.fetchall()]


def insert_sql(source: str) -> str:
    """Inserts deliveries. ``source`` has the rows ``event``, then those of a channel and, empty if
    it is still to be found, a recipient. Ends in a condition."""
    conditions = " AND ".join(
        f"(owed.channel <> '{name}' OR owed.recipient <> '' OR {condition})"
        for name, condition in _conditions.items()
    )
    return f"""
        INSERT INTO ledger_delivery (event_id, channel, recipient, state, attempts, error)
        SELECT event.id, owed.channel, owed.recipient, 'waiting', 0, ''
        FROM {source} AS owed (channel, recipient) WHERE {conditions or "true"}
    """


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
        if not delivery.recipient:
            return _address(delivery, channel)
        channel.send(delivery)
    except Exception as failure:
        record_failure(delivery, failure)
    else:
        record_done([delivery])
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


# The oldest that are due, but of no recipient more than its share: one that is slow, or owed very
# much, must not keep the others waiting. Rows that another courier is looking at are skipped.
_CLAIM = """
    WITH due AS MATERIALIZED (
        SELECT id, channel, recipient, next_attempt_at FROM ledger_delivery
        WHERE state = 'waiting' AND next_attempt_at <= statement_timestamp()
            AND channel = ANY(%s::text[])
            AND (channel, recipient) NOT IN (SELECT * FROM unnest(%s::text[], %s::text[]))
        ORDER BY next_attempt_at LIMIT %s FOR UPDATE SKIP LOCKED
    ), placed AS (
        SELECT id, next_attempt_at, row_number() OVER (
            PARTITION BY channel, recipient ORDER BY next_attempt_at, id) AS place,
            recipient = '' AS is_unaddressed
        FROM due
    )
    UPDATE ledger_delivery SET attempts = attempts + 1,
        next_attempt_at = statement_timestamp() + %s::float8 * interval '1 second'
    WHERE id IN (SELECT id FROM placed WHERE is_unaddressed OR place <= %s
                 ORDER BY next_attempt_at, id LIMIT %s)
    RETURNING id
"""
LOOKED_AT = 4  # times as many rows as are claimed


def claim_due(
    names: Iterable[str],
    most: int,
    *,
    of_each: int,
    except_for: Iterable[tuple[str, str]] = (),
) -> list[Delivery]:
    """Claim up to ``most`` deliveries of these channels that are due, in the order of their time.

    At most ``of_each`` to one recipient, and none to the pairs of channel and recipient in
    ``except_for``.
    """
    busy = list(except_for)
    busy_channels, busy_recipients = [name for name, _ in busy], [to for _, to in busy]
    looked_at = LOOKED_AT * most
    parameters: list[Any] = [list(names), busy_channels, busy_recipients, looked_at]
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [*parameters, SENDING_TAKES_AT_MOST.total_seconds(), of_each, most])
        ids = [delivery_id for (delivery_id,) in cursor.fetchall()]
    claimed = Delivery.objects.select_related("event__transaction").filter(pk__in=ids)
    return sorted(claimed, key=lambda delivery: delivery.pk) if ids else []


def address_all(deliveries: Sequence[Delivery]) -> None:
    """Add a row per recipient to claimed deliveries that have none yet; a failure is recorded."""
    addressed: list[Delivery] = []
    rows: list[Delivery] = []
    for delivery in deliveries:
        try:
            rows += _to_recipients(delivery, channels[delivery.channel])
        except Exception as failure:
            record_failure(delivery, failure)
        else:
            addressed.append(delivery)
    with atomic():
        Delivery.objects.bulk_create(rows, ignore_conflicts=True)
        record_done(addressed)


def record_done(deliveries: Sequence[Delivery]) -> None:
    """Nothing more to do for these, unless another worker has claimed one since."""
    if not deliveries:
        return
    ids, attempts = [row.pk for row in deliveries], [row.attempts for row in deliveries]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_delivery SET state = 'done', done_at = statement_timestamp(), error = ''"
            " FROM unnest(%s::bigint[], %s::integer[]) AS sent(id, attempts)"
            " WHERE ledger_delivery.id = sent.id AND ledger_delivery.attempts = sent.attempts",
            [ids, attempts],
        )


def record_failure(delivery: Delivery, failure: Exception) -> None:
    """Try again later, unless another worker has claimed it since. ``NotNow`` only postpones it."""
    if isinstance(failure, NotNow):
        _postpone(delivery, failure.wait, str(failure))
    elif _is_gone(delivery, failure):
        record_done([delivery])
    else:
        logger.warning("delivery %s (%s): %s", delivery.pk, delivery.channel, failure)
        _fail(delivery, failure)


def record_accepted(deliveries: Sequence[Delivery]) -> None:
    """Let each channel note what its receivers took. That may fail: it was delivered."""
    by_channel: dict[str, list[Delivery]] = {}
    for delivery in deliveries:
        by_channel.setdefault(delivery.channel, []).append(delivery)
    for name, taken in by_channel.items():
        if isinstance(channel := channels[name], HttpChannel):
            try:
                channel.accepted(taken)
            except Exception:
                logger.exception("%s could not note what was delivered", name)


def _is_gone(delivery: Delivery, failure: Exception) -> bool:
    channel = channels.get(delivery.channel)
    return (
        isinstance(failure, http_out.NotAccepted)
        and isinstance(channel, HttpChannel)
        and channel.is_gone(delivery, failure.status)
    )


def _still_claimed(delivery: Delivery) -> models.QuerySet[Delivery]:
    """The row, unless another worker has claimed it since: then that worker's result counts."""
    return Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts)


def _to_recipients(delivery: Delivery, channel: Channel) -> list[Delivery]:
    return [
        Delivery(
            event=delivery.event,
            channel=delivery.channel,
            recipient=owed.recipient,
            next_attempt_at=owed.not_before or Now(),
        )
        for owed in channel.address(delivery.event)
    ]


def _address(delivery: Delivery, channel: Channel) -> list[int]:
    rows = _to_recipients(delivery, channel)
    with atomic():
        Delivery.objects.bulk_create(rows, ignore_conflicts=True)
        record_done([delivery])
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
