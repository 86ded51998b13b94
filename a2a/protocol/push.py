"""Push notifications: the channel that posts a task to the addresses that its client gave.

A delivery is written to the outbox with the event, signed, and retried with back-off. Private
addresses are refused at every attempt.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from uuid import uuid4

from a2a import cards, wire
from a2a.models import PUSH, PushConfig
from a2a.wire import sdk
from ledger.events.outbox import HttpChannel, Owed
from ledger.foundation.http_out import Post
from ledger.models import Delivery, Event

VALID_S = 300  # seconds from the signature to its expiry


class PushChannel(HttpChannel):
    """Registered as an outbox channel (``a2a.apps``)."""

    name = PUSH

    def wants(self, kind: str) -> bool:
        """Never by its kind: ``a2a.tasks.transitions`` writes the deliveries of an event."""
        return False

    def address(self, event: Event) -> Iterable[Owed]:
        return []

    def request(self, delivery: Delivery) -> Post | None:
        """The task as it is now."""
        config = PushConfig.objects.select_related("task").filter(pk=delivery.recipient).first()
        if config is None:
            return None  # deleted since
        body = json.dumps({"task": wire.render(config.task, history=0)}).encode()
        return Post(config.url, body, _headers(config, body))


def _headers(config: PushConfig, body: bytes) -> dict[str, str]:
    now = int(time.time())
    claims = {
        "iss": "assent",
        "aud": config.url,
        "iat": now,
        "exp": now + VALID_S,
        "jti": str(uuid4()),
        "task_id": str(config.task_id),
        "request_body_sha256": hashlib.sha256(body).hexdigest(),
    }
    headers = {"Content-Type": sdk.A2A_JSON, "A2A-Version": "1.0", "User-Agent": "Assent"}
    if config.token:
        headers["X-A2A-Notification-Token"] = config.token
    if config.scheme and config.credentials:
        headers["Authorization"] = f"{config.scheme} {config.credentials}"
    if signature := cards.signed_claims(claims):
        headers["X-Assent-Signature"] = signature
    return headers
