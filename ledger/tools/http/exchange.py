"""Requests to the service of a tool's owner: signed, bounded, to checked addresses only."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx

from ledger.contracts import Context, NothingHappenedYet
from ledger.foundation import http_out
from ledger.foundation.http_out import Credentials, CredentialUnusable
from ledger.foundation.telemetry import tracing
from ledger.tools.http import answers, signing
from ledger.tools.http.answers import Answer, Meaning

LARGEST_ANSWER = 256 * 1024  # bytes
LARGEST_PLAN = 6 * 1024 * 1024  # with evidence in base64
LONGEST_PAUSE_S = 30.0
ACCEPT = {"Accept": "application/json"}
CLOCKS_DIFFER = signing.VALID_FOR / 2
NOTHING_WAS_SENT = (
    CredentialUnusable,
    http_out.AddressRefused,
    signing.NotSigned,
    httpx.ConnectError,
)
# Finds what is shown to an address; raises ``CredentialUnusable``.
Showing = Callable[[str], Credentials]
# Finds what signs requests to an address; raises ``CredentialUnusable``.
Secrets = Callable[[str], Sequence[str]]


def show_nothing(_: str) -> Credentials:
    return Credentials()


@dataclass(frozen=True, slots=True)
class Service:
    """Address where the tool runs, and the way to find out what the service wants to see.

    With ``secrets`` it is asked by webhooks, all of them to the address itself; else by routes,
    signed with our key.
    """

    address: str
    showing: Showing
    secrets: Secrets | None = None


def ask(service: Service, verb: str, body: Mapping[str, Any], context: Context) -> Meaning:
    """POST one verb. Raises ``NothingHappenedYet`` where nothing was sent, ``NotProved``, and
    ``httpx.HTTPError`` and ``TimeoutError``, after which the outcome is not known."""
    key = f'"{quote(context.operation_key, safe=":")}:{verb}"'
    if service.secrets is None:
        request = _post(f"{service.address}/{verb}", body)
    else:
        request = _post(service.address, {"verb": verb, **body})
    request.headers["Idempotency-Key"] = key
    largest = LARGEST_PLAN if verb in {"plan", "replan"} else LARGEST_ANSWER
    return answers.meaning_of(_answer_to(request, service, context, largest))


def look_up(service: Service, operation: Mapping[str, Any], context: Context) -> Answer:
    """The answer to what became of the operation. Raises as ``ask`` does."""
    path = f"operations/{quote(context.operation_key, safe='')}"
    return _answer_to(reading(service, path, "find_receipt", operation), service, context)


def reading(service: Service, path: str, verb: str, named: Mapping[str, Any]) -> httpx.Request:
    """GET the path; a webhook, which signs a body alone, says there what is meant."""
    if service.secrets is not None:
        return _post(service.address, {"verb": verb, **named})
    return httpx.Request("GET", f"{service.address}/{path}", headers=ACCEPT)


def _post(address: str, body: Mapping[str, Any]) -> httpx.Request:
    content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    headers = {"Content-Type": "application/json", **ACCEPT}
    return httpx.Request("POST", address, content=content, headers=headers)


def _answer_to(
    request: httpx.Request, service: Service, context: Context, largest: int = LARGEST_ANSWER
) -> Answer:
    timeout_s = context.timeout.total_seconds()
    try:
        response = response_to(request, service, timeout_s=timeout_s, largest_answer=largest)
    except NOTHING_WAS_SENT as refusal:
        raise NothingHappenedYet(f"Nothing was sent: {refusal}") from refusal
    body = answers.object_in(response.content)
    answers.check_is_of(context.operation_key, body)
    return Answer(response.status_code, body, _pause_in(response), _clock_in(response))


def response_to(
    request: httpx.Request,
    service: Service,
    *,
    timeout_s: float,
    largest_answer: int = LARGEST_ANSWER,
) -> httpx.Response:
    """Send it, signed and with what the service wants to see. Raises ``NOTHING_WAS_SENT``, and
    ``httpx.HTTPError`` and ``TimeoutError``."""
    shown = service.showing(service.address)
    request.headers.update({**tracing.headers(), **shown.headers})
    if service.secrets is None:
        signing.sign(request)
    else:
        signing.sign_as_webhook(request, service.secrets(service.address))
    return http_out.send(request, timeout_s=timeout_s, largest_answer=largest_answer, tls=shown.tls)


def _pause_in(response: httpx.Response) -> float:
    """``Retry-After`` in seconds; one second where it is missing, or a date."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_PAUSE_S) if text.isascii() and text.isdigit() else 1.0


def _clock_in(response: httpx.Response) -> str:
    """Difference between the clocks, where that may be why our signature was refused."""
    if response.status_code not in {401, 403}:
        return ""
    try:
        ahead = parsedate_to_datetime(response.headers["Date"]) - datetime.now(UTC)
    except (KeyError, ValueError, TypeError, OverflowError):
        return ""
    seconds = round(ahead.total_seconds())
    where = "ahead of" if seconds > 0 else "behind"
    return f"Its clock is {abs(seconds)} s {where} ours." if abs(ahead) >= CLOCKS_DIFFER else ""


def deadline_of(context: Context) -> float:
    return time.monotonic() + context.timeout.total_seconds()


def pause(seconds: float, deadline: float) -> bool:
    """Wait; ``False``, and no wait, if that would end after the deadline."""
    if time.monotonic() + seconds >= deadline:
        return False
    time.sleep(seconds)
    return True
