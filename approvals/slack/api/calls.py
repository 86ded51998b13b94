"""Calls of Slack's Web API that owe nobody a hurry: what Slack asks for in patience, it gets."""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from http.client import HTTPException
from typing import Any

from django.db.models.functions import Now
from redis import RedisError
from slack_sdk.errors import SlackApiError

from approvals.slack.api.credentials import SlackApp, client_of
from ledger.events import doorbell
from ledger.events.outbox import NotNow
from ledger.models import Delivery, DeliveryState

logger = logging.getLogger(__name__)

NETWORK = (OSError, HTTPException)  # URLError and TimeoutError are OSErrors
RATE_LIMITED = 429
# After a call that got no answer, nobody else need wait for one at once.
SILENT_FOR = timedelta(seconds=5)
SPREAD = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=10)
PER_SECOND = 50  # of those put off, about so many come back


class Patience(NotNow):
    """Slack asks to wait for ``left``; a delivery waits a little longer, with many others."""

    def __init__(self, left: timedelta, why: str) -> None:
        super().__init__(_spread(left), why)
        self.left = left


class Unreachable(Exception):
    """Slack gave no answer, or none that could be read. What it did is not known."""


def call(app: SlackApp, method: str, **arguments: Any) -> dict[str, Any]:
    """What Slack answered.

    Raises ``NotNow`` while Slack asks for patience, ``Unreachable``, and ``SlackApiError`` for a
    refusal, whose ``response["error"]`` is Slack's word for it.
    """
    where = str(arguments.get("channel", ""))
    _respect_pauses(app, method, where)
    try:
        answer: Any = getattr(client_of(app), method.replace(".", "_"))(**arguments)
    except SlackApiError as refusal:
        response: Any = refusal.response
        if response.status_code == RATE_LIMITED:
            wait = _wait_asked_for(response)
            _pause(app, method, where, wait)
            raise Patience(wait, f"Slack asked to wait {wait.seconds} s.") from None
        if response.status_code >= 500 or not isinstance(response.data, dict):
            _pause(app, "", "", SILENT_FOR)
            raise Unreachable(f"Slack answered {response.status_code}.") from None
        raise
    except NETWORK as failure:
        _pause(app, "", "", SILENT_FOR)
        raise Unreachable(f"Slack cannot be reached: {failure}") from failure
    return dict(answer.data)


def error_of(refusal: SlackApiError) -> str:
    response: Any = refusal.response
    return str(response["error"]) if isinstance(response.data, dict) else ""


def _wait_asked_for(response: Any) -> timedelta:
    """``Retry-After`` in seconds; Slack always sends it."""
    headers = {str(name).lower(): value for name, value in response.headers.items()}
    said = headers.get("retry-after", "1")
    seconds = float(said) if str(said).replace(".", "", 1).isdigit() else 1.0
    return min(max(timedelta(seconds=seconds), timedelta(seconds=1)), LONGEST_PAUSE)


def _spread(wait: timedelta) -> timedelta:
    """Not all that wait come back at the same moment."""
    soon = Delivery.objects.filter(
        channel="slack", state=DeliveryState.WAITING, next_attempt_at__lte=Now() + wait + SPREAD
    )
    waiting = len(soon.values_list("pk")[: PER_SECOND * int(SPREAD.total_seconds())])
    return wait + timedelta(seconds=random.uniform(0, 0.2 + waiting / PER_SECOND))


# A pause is kept in Redis, where all workers see it. If Redis loses it, Slack says it again.


def _respect_pauses(app: SlackApp, method: str, where: str) -> None:
    try:
        left = max(
            doorbell.redis().pttl(_pause_key(app, "", "")),
            doorbell.redis().pttl(_pause_key(app, method, where)),
        )
    except RedisError:
        return
    if left > 0:
        # Longer than Slack ever asks for, it is not Slack who asked.
        wait = min(timedelta(milliseconds=min(left, 2**31)), LONGEST_PAUSE)
        raise Patience(wait, "Slack asked to wait, or does not answer.")


def _pause(app: SlackApp, method: str, where: str, wait: timedelta) -> None:
    try:
        doorbell.redis().set(_pause_key(app, method, where), 1, px=wait)
    except RedisError as failure:
        logger.info("no pause for Slack kept: %s", failure)


def _pause_key(app: SlackApp, method: str, where: str) -> str:
    return f"assent:slack:pause:{app.fingerprint}:{method}:{where}"
