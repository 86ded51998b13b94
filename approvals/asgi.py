"""Project wiring: what stays open (WebSocket, long-polls); it can serve everything else too."""

from __future__ import annotations

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "approvals.settings")
django_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import URLRouter  # noqa: E402
from channels.security.websocket import OriginValidator  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import path  # noqa: E402

from a2a.transports import jsonrpc  # noqa: E402
from approvals.web.live import DeskConsumer  # noqa: E402
from ledger.start_checks import refuse_if_unsafe  # noqa: E402

refuse_if_unsafe("live")

sockets = OriginValidator(
    AuthMiddlewareStack(URLRouter([path("ws/desk", DeskConsumer.as_asgi())])),
    [settings.PUBLIC_URL],
)


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _answer_lifespan(receive, send)
    elif scope["type"] == "websocket":
        await sockets(scope, receive, send)
    elif jsonrpc.is_ours(scope["path"]):
        await jsonrpc.application()(scope, receive, send)
    else:
        await django_application(scope, receive, send)


async def _answer_lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
