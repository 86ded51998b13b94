"""Django's responses over ASGI, for requests that are answered without Django's handlers."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware

from approvals.http.admission.pages import environ_of
from approvals.http.middleware import GetResponse, SecurityHeaders

Headers = list[tuple[bytes, bytes]]


async def send_response(scope: Any, send: Any, response: HttpResponse) -> None:
    """Send it with the headers that the middleware gives every answer of the API."""
    environ = environ_of(scope, b"")
    environ.pop("CONTENT_TYPE", None)  # its charset may be none
    request = WSGIRequest(environ)
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


@cache
def headers_of_middleware(scheme: str, forwarded_proto: str | None) -> Headers | None:
    """The headers that middleware adds to every answer of the API, whatever it is.

    ``None`` where it answers itself, as it does to plain HTTP that has to be HTTPS.
    """
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/api/v1/", "SERVER_NAME": "localhost"}
    environ |= {"SERVER_PORT": "80", "wsgi.url_scheme": scheme}
    request = WSGIRequest({**environ, "wsgi.input": io.BytesIO()})
    if forwarded_proto is not None:
        request.META["HTTP_X_FORWARDED_PROTO"] = forwarded_proto
    empty = HttpResponse()
    request.assent_response = empty  # type: ignore[attr-defined]
    response = _middleware()(request)
    return (
        None
        if response is not empty
        else [
            (name.lower().encode(), value.encode())
            for name, value in response.items()
            if name not in {"Content-Type", "Content-Length"}
        ]
    )
