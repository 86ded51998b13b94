"""Django's responses over ASGI, for requests that are answered without Django's handlers."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware

from approvals.http.middleware import GetResponse, SecurityHeaders
from approvals.http.pages import environ_of


async def send_response(scope: Any, send: Any, response: HttpResponse) -> None:
    """Send it with the headers that the middleware gives every answer of the API."""
    request = WSGIRequest(environ_of(scope, b""))
    request.assent_response = response  # type: ignore[attr-defined]
    response = _middleware()(request)
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.items()
    ]
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": response.content})


@cache
def _middleware() -> GetResponse:
    def respond(request: Any) -> HttpResponse:
        response: HttpResponse = request.assent_response
        if response.status_code != 304:
            response.headers.setdefault("Content-Length", str(len(response.content)))
        return response

    inner: Any = SecurityMiddleware(XFrameOptionsMiddleware(respond))
    return SecurityHeaders(inner)
