"""Push notifications: a client is told how its task stands, at the address that it gave.

Written into the outbox with the event, signed, retried with back-off; private addresses are
refused, at every call (design §6).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from uuid import uuid4

from a2a import signatures
from a2a.models import PUSH, PushConfig, Task
from a2a.wire import sdk, to_json
from ledger import safe_http
from ledger.errors import InvalidRequest
from ledger.events.outbox import Owed
from ledger.models import Delivery, Event

MOST_CONFIGS = 10  # of one task
VALID_S = 300  # seconds that a signature is good for


def keep(
    task: Task, *, config_id: str, url: str, token: str, scheme: str, credentials: str
) -> PushConfig:
    """A new config, or the one of that id changed. Raises ``InvalidRequest``."""
    if any(len(text) > 2000 or "\x00" in text for text in (url, token, credentials, config_id)):
        raise InvalidRequest("A push notification config has texts of at most 2,000 characters.")
    if any(
        ord(character) < 32 or ord(character) > 126 for character in token + scheme + credentials
    ):
        raise InvalidRequest("The token and the credentials become headers: plain ASCII only.")
    try:
        safe_http.check(url)
    except safe_http.AddressRefused as refusal:
        raise InvalidRequest(f"Nothing is pushed to that address. {refusal}") from None
    if task.push_configs.exclude(config_id=config_id).count() >= MOST_CONFIGS:
        raise InvalidRequest(f"A task has at most {MOST_CONFIGS} push notification configs.")
    config, _ = PushConfig.objects.update_or_create(
        task=task,
        config_id=config_id or str(uuid4()),
        defaults={"url": url, "token": token, "scheme": scheme[:50], "credentials": credentials},
    )
    return config


class PushChannel:
    name = PUSH

    def wants(self, kind: str) -> bool:
        """Never by its kind: the event itself says whom it owes (``a2a.tasks.transitions``)."""
        return False

    def address(self, event: Event) -> Iterable[Owed]:
        return []

    def send(self, delivery: Delivery) -> None:
        """Tell how the task stands now. Raises what ``safe_http.deliver`` raises."""
        config = PushConfig.objects.select_related("task").filter(pk=delivery.recipient).first()
        if config is None:
            return  # taken away since; nothing is owed any more
        body = json.dumps({"task": to_json.render(config.task, history=0)}).encode()
        safe_http.deliver(config.url, body, _headers(config, body))


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
    if signature := signatures.signed(claims):
        headers["X-Assent-Signature"] = signature
    return headers
