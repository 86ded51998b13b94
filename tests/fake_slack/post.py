"""Requests to the product over HTTP, signed as Slack signs."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from slack_sdk.signature import SignatureVerifier

from tests.fake_slack.records import Envelope, Reaction

USER_AGENT = "Slackbot 1.0 (+https://api.slack.com/robots)"
FORM = "application/x-www-form-urlencoded"
MARGIN_S = 2.0
Headers = Mapping[str, str | None]


def signature_of(body: bytes, signing_secret: str, timestamp: str) -> str:
    signature = SignatureVerifier(signing_secret).generate_signature(timestamp=timestamp, body=body)
    assert signature is not None
    return signature


def signed_headers(
    body: bytes, content_type: str, signing_secret: str, timestamp: str, signature: str | None
) -> dict[str, str | None]:
    return {
        "User-Agent": USER_AGENT,
        "Accept": "*/*",
        "Content-Type": content_type,
        "X-Slack-Request-Timestamp": timestamp,
        "X-Slack-Signature": signature or signature_of(body, signing_secret, timestamp),
    }


def send(
    url: str,
    body: bytes,
    headers: Headers,
    *,
    patience_s: float,
    trigger_id: str = "",
    envelope: Envelope | None = None,
) -> Reaction:
    """A header of None is left out. No redirect is followed; the real one follows none."""
    assert url, "set interactivity_url, commands_url and events_url first"
    sent = {name: value for name, value in headers.items() if value is not None}
    start = time.monotonic()
    try:
        status, text = _exchange(url, body, sent, patience_s + MARGIN_S)
    except (OSError, http.client.HTTPException) as error:
        status, text = 0, f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - start
    is_late = seconds > patience_s
    return Reaction(
        status, text, json_of(text) if status else None, seconds, is_late, trigger_id, envelope
    )


def json_of(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _exchange(url: str, body: bytes, headers: dict[str, str], timeout: float) -> tuple[int, str]:
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=timeout)) as connection:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        with connection.getresponse() as response:
            return response.status, response.read().decode("utf-8", "replace")
