"""Calls of Slack's Web API that respect Slack's rate limits; for work that may be put off."""

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
from ledger.events.outbox import NotNow
from ledger.foundation import doorbell
from ledger.models import Delivery, DeliveryState

logger = logging.getLogger(__name__)

NETWORK = (OSError, HTTPException)  # URLError and TimeoutError are OSErrors
RATE_LIMITED = 429
# After a call that got no answer, no other call of this app is made for so long.
PAUSE_WHEN_SILENT = timedelta(seconds=5)
WINDOW = timedelta(seconds=30)  # deliveries due in it are counted to spread them
LONGEST_PAUSE = timedelta(minutes=10)
PER_SECOND = 50  # deliveries that were put off come back at about this rate


class Patience(NotNow):
    """Slack asked to wait for ``left``. A delivery waits a little longer, to spread the load."""

    def __init__(self, left: timedelta, why: str) -> None:
        super().__init__(_spread(left), why)
        self.left = left


class Unreachable(Exception):
    """Slack gave no answer, or none that could be read. What it did is not known."""


def call_slack(app: SlackApp, method: str, **arguments: Any) -> dict[str, Any]:
    """The body of Slack's answer.

    Raises ``Patience`` (a ``NotNow``) while Slack asks to wait, ``Unreachable``, and
    ``SlackApiError`` for a refusal; ``error_of`` gives its code.
    """
    channel = str(arguments.get("channel", ""))
    _respect_pauses(app, method, channel)
    try:
        answer: Any = getattr(client_of(app), method.replace(".", "_"))(**arguments)
    except SlackApiError as refusal:
        response: Any = refusal.response
        if response.status_code == RATE_LIMITED:
            wait = _wait_asked_for(response)
            _pause(app, method, channel, wait)
            raise Patience(wait, f"Slack asked to wait {wait.seconds} s.") from None
        if response.status_code >= 500 or not isinstance(response.data, dict):
            _pause(app, "", "", PAUSE_WHEN_SILENT)
            raise Unreachable(f"Slack answered {response.status_code}.") from None
        raise
    except NETWORK as failure:
        _pause(app, "", "", PAUSE_WHEN_SILENT)
        raise Unreachable(f"Slack cannot be reached: {failure}") from failure
    return dict(answer.data)


def error_of(refusal: SlackApiError) -> str:
    """Slack's error code, such as ``channel_not_found``; empty if there is none."""
    response: Any = refusal.response
    return str(response["error"]) if isinstance(response.data, dict) else ""


def _wait_asked_for(response: Any) -> timedelta:
    """``Retry-After`` in seconds; Slack always sends it."""
    headers = {str(name).lower(): value for name, value in response.headers.items()}
    value = str(headers.get("retry-after", "1"))
    seconds = float(value) if value.replace(".", "", 1).isdigit() else 1.0
    return min(max(timedelta(seconds=seconds), timedelta(seconds=1)), LONGEST_PAUSE)


def _spread(wait: timedelta) -> timedelta:
    """A longer wait, at random: the more deliveries wait, the longer."""
    soon = Delivery.objects.filter(
        channel="slack", state=DeliveryState.WAITING, next_attempt_at__lte=Now() + wait + WINDOW
    )
    waiting = len(soon.values_list("pk")[: PER_SECOND * int(WINDOW.total_seconds())])
    return wait + timedelta(seconds=random.uniform(0, 0.2 + waiting / PER_SECOND))


# Pauses are kept in Redis, where all workers see them. If Redis loses one, Slack asks again.


def _respect_pauses(app: SlackApp, method: str, channel: str) -> None:
    try:
        left = max(
            doorbell.redis().pttl(_pause_key(app, "", "")),
            doorbell.redis().pttl(_pause_key(app, method, channel)),
        )
    except RedisError:
        return
    if left > 0:
        # Redis may hold any number; Slack never asks for more than this.
        wait = min(timedelta(milliseconds=min(left, 2**31)), LONGEST_PAUSE)
        raise Patience(wait, "Slack asked to wait, or does not answer.")


def _pause(app: SlackApp, method: str, channel: str, wait: timedelta) -> None:
    try:
        doorbell.redis().set(_pause_key(app, method, channel), 1, px=wait)
    except RedisError as failure:
        logger.info("a pause for Slack could not be stored: %s", failure)


def _pause_key(app: SlackApp, method: str, channel: str) -> str:
    return f"assent:slack:pause:{app.fingerprint}:{method}:{channel}"
