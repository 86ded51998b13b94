"""Project wiring: what stays open (WebSocket, long-polls); it can serve everything else too."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "approvals.settings")
_is_its_own_process = not settings.configured
django_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import URLRouter  # noqa: E402
from channels.security.websocket import OriginValidator  # noqa: E402
from django.urls import path  # noqa: E402

from a2a.protocol import app  # noqa: E402
from approvals import wsgi  # noqa: E402
from approvals.http.pages import Pages  # noqa: E402
from approvals.web.live import DeskConsumer  # noqa: E402
from ledger.database import sessions  # noqa: E402

if _is_its_own_process:
    sessions.bound(pool=settings.DATABASE_POOL)

sockets = OriginValidator(
    AuthMiddlewareStack(URLRouter([path("ws/desk", DeskConsumer.as_asgi())])),
    [settings.PUBLIC_URL],
)
pages = Pages(
    wsgi.application,
    threads=settings.PAGE_THREADS,
    largest_body=2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    body_within_s=settings.BODY_S,
)
WAITING = "/api/v1/work/"
WAITED_FOR = ("/api/v1/transactions/", "/api/v1/tasks/")


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _answer_lifespan(receive, send)
    elif scope["type"] == "websocket":
        await sockets(scope, receive, send)
    elif app.is_ours(scope["path"]):
        await app.application()(scope, receive, send)
    elif _may_wait(scope):
        # Who waits takes a thread for long: not one of those of the pages.
        await django_application(scope, receive, send)
    else:
        await pages(scope, receive, send)


def _may_wait(scope: Any) -> bool:
    """Only addresses that agents wait at: nobody else takes a thread of their own by asking."""
    path = scope["path"]
    return bool(
        path.startswith(WAITING)
        or (path.startswith(WAITED_FOR) and b"wait=" in scope.get("query_string", b""))
    )


async def _answer_lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
