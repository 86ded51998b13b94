"""The requests that Slack sends over HTTP: verify the signature, pass on, acknowledge."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from approvals.slack.api import SlackApp, is_configured, signed_by
from approvals.slack.interactions import receive
from ledger.api.http import parse_json

Handler = Callable[[bytes, list[SlackApp]], HttpResponse]


def from_slack(handler: Handler) -> Callable[[HttpRequest], HttpResponse]:
    """A view for requests that Slack signed in the last five minutes.

    404 where Slack is not set up, 401 without a valid signature, 400 and 413 for bad bodies.
    """

    @csrf_exempt
    @require_POST
    @wraps(handler)
    def view(request: HttpRequest) -> HttpResponse:
        if not is_configured():
            raise Http404
        try:
            body = request.body
        except RequestDataTooBig:
            return HttpResponse("Too large.", status=413)
        apps = signed_by(body, request.headers)
        if not apps:
            return HttpResponse("The signature is missing, wrong or old.", status=401)
        try:
            return handler(body, apps)
        except (ValueError, RecursionError):
            return HttpResponse("This cannot be read.", status=400)

    return view


@from_slack
def interaction(body: bytes, apps: list[SlackApp]) -> HttpResponse:
    reply = receive.interaction(_object(QueryDict(body).get("payload", "")), apps)
    return HttpResponse() if reply is None else JsonResponse(reply)


@from_slack
def command(body: bytes, apps: list[SlackApp]) -> HttpResponse:
    reply = receive.command(QueryDict(body).dict(), apps)
    return HttpResponse() if reply is None else JsonResponse(reply)


@from_slack
def event(body: bytes, apps: list[SlackApp]) -> HttpResponse:
    payload = _object(body)
    if payload.get("type") == "url_verification":
        return HttpResponse(str(payload.get("challenge", "")), content_type="text/plain")
    receive.event(payload, apps)
    return HttpResponse()


def _object(text: str | bytes | None) -> dict[str, Any]:
    """A JSON object. Raises ``ValueError``."""
    value = parse_json(text or "", is_strict=False)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
