"""Web push messages: encrypted for one browser (RFC 8291), signed by this installation (RFC 8292).

The push service between us and the browser sees whose endpoint it is, when and how often we send,
and how urgent it is; not a word of the message, of which even the length is always the same.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from approvals.models import PushSubscription
from ledger.foundation.http_out import Post

# Every message is padded to this many bytes. A push service takes 4096 after encryption.
PLAIN_BYTES = 2048
SIGNED_FOR_S = 12 * 60 * 60  # a push service refuses more than 24 hours
HIGH, NORMAL = "high", "normal"


def post_to(
    subscription: PushSubscription,
    message: Mapping[str, Any],
    *,
    topic: str,
    ttl_s: int,
    urgency: str = NORMAL,
) -> Post:
    """The request that brings a message to a browser.

    ``topic`` (at most 32 letters and digits): of messages that could not be delivered yet, a push
    service keeps the last one of a topic. Raises ``ImproperlyConfigured`` without a key.
    """
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "aes128gcm",
        "TTL": str(ttl_s),
        "Urgency": urgency,
        "Topic": topic,
        "Authorization": _signature(subscription.endpoint),
    }
    return Post(subscription.endpoint, _encrypted(subscription, message), headers)


def _encrypted(subscription: PushSubscription, message: Mapping[str, Any]) -> bytes:
    from pywebpush import WebPusher  # it loads two HTTP clients, which only couriers need to bear

    text = json.dumps(message, ensure_ascii=False).encode().ljust(PLAIN_BYTES)
    keys = {"p256dh": str(subscription.p256dh), "auth": str(subscription.auth)}
    pusher = WebPusher({"endpoint": str(subscription.endpoint), "keys": keys})
    body: bytes = pusher.encode(text, "aes128gcm")["body"]
    return body


def _signature(endpoint: str) -> str:
    from py_vapid import Vapid02

    if not settings.VAPID_KEY:
        raise ImproperlyConfigured("ASSENT_VAPID_KEY is not set for this courier: nothing is sent.")
    raw = base64.urlsafe_b64encode(bytes.fromhex(settings.VAPID_KEY)).rstrip(b"=")
    # Anybody may run an installation that has no public address, which the library would refuse.
    signer = Vapid02.from_raw(raw)
    signer.conf["no-strict"] = True
    claims = {
        "aud": _origin(endpoint),
        "exp": int(time.time()) + SIGNED_FOR_S,
        "sub": settings.PUBLIC_URL,
    }
    header: str = signer.sign(claims)["Authorization"]
    return header


def _origin(endpoint: str) -> str:
    url = httpx.URL(endpoint)
    return f"{url.scheme}://{url.netloc.decode('ascii')}"
