"""Project wiring: what stays open (WebSocket, long-polls); it can serve everything else too."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import django
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "approvals.settings")
_is_its_own_process = not settings.configured
django.setup(set_prefix=False)

from channels.security.websocket import OriginValidator  # noqa: E402

from a2a.mcp import app as mcp  # noqa: E402
from a2a.protocol import app  # noqa: E402
from approvals import health, wsgi  # noqa: E402
from approvals.http import fast_path  # noqa: E402
from approvals.http.gate import Gate  # noqa: E402
from approvals.http.pages import Pages  # noqa: E402
from approvals.http.patience import Patience  # noqa: E402
from approvals.http.sign_ins import SignIns  # noqa: E402
from approvals.http.waits import SMALL_BODY, Waits  # noqa: E402
from approvals.web import live  # noqa: E402
from ledger import doorbell, liveness, start_checks  # noqa: E402
from ledger.api.readings import MOST_OF_ONE  # noqa: E402
from ledger.database import sessions  # noqa: E402

if _is_its_own_process:
    start_checks.allow_many_connections()
    sessions.bound("web", pool=settings.DATABASE_POOL)
    doorbell.ring_in_background()
    liveness.show("web")
    start_checks.check_database()

desk = OriginValidator(live.application, [settings.PUBLIC_URL])
pages = Pages(
    wsgi.application,
    threads=settings.PAGE_THREADS,
    largest_body=settings.A2A_BODY_MAX,  # the files that people give; the gate allows others less
    body_within_s=settings.BODY_S,
    fast_path=fast_path.respond,
)
# Hashing a password takes half a second of a processor: a storm of sign-ins delays no page.
hashing = Pages(
    wsgi.application,
    threads=2,
    largest_body=SMALL_BODY,
    body_within_s=settings.BODY_S,
    most_waiting=20,
)
sign_ins = SignIns(hashing, pages)
HASHING = frozenset({"/sign-in/", "/password/", "/account/confirm/", "/sign-in/forgotten/"})
# Links, where a password is chosen.
HASHING_BELOW = ("/join/", "/first/")
# An export takes as long as its reader: a few slow downloads delay no page.
exports = Pages(
    wsgi.application,
    threads=2,
    largest_body=SMALL_BODY,
    body_within_s=settings.BODY_S,
    most_waiting=10,
)
EXPORT = "/history/export."
# Proposals may wait for the plan of a tool, which delays no page.
proposals = Pages(
    wsgi.application,
    threads=settings.PLAN_THREADS + settings.PAGE_THREADS,
    largest_body=2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    body_within_s=settings.BODY_S,
    fast_path=fast_path.respond,
)
PROPOSE = "/api/v1/transactions"
# Calls of tools that only read wait for services elsewhere, which delays no page.
readings = Pages(
    wsgi.application,
    threads=2 * MOST_OF_ONE,
    largest_body=2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    body_within_s=settings.BODY_S,
)
TOOLS, CALL = "/api/v1/tools/", "/call"
ordinary = Waits(pages, body_within_s=settings.BODY_S)


async def _route(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        if scope["path"] == "/ws/desk":
            await desk(scope, receive, send)
        else:
            await send({"type": "websocket.close"})
    elif mcp.is_ours(scope["path"]):
        await mcp.application(scope, receive, send)
    elif app.is_ours(scope["path"]):
        await app.application()(scope, receive, send)
    elif scope["method"] == "POST" and _hashes(scope["path"]):
        await sign_ins(scope, receive, send)
    elif scope["path"].startswith(EXPORT):
        await exports(scope, receive, send)
    elif scope["path"] == PROPOSE and scope["method"] == "POST":
        await proposals(scope, receive, send)
    elif scope["path"].startswith(TOOLS) and scope["path"].endswith(CALL):
        await readings(scope, receive, send)
    elif scope["method"] == "GET" and not scope["query_string"]:
        await pages(scope, receive, send)  # nothing there waits
    else:
        await ordinary(scope, receive, send)


def _hashes(path: str) -> bool:
    return path in HASHING or path.startswith(HASHING_BELOW)


admitted = Patience(Gate(_route))


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _answer_lifespan(receive, send)
    elif scope["type"] == "http" and scope["path"] in health.PATHS:
        await health.answer(scope, send)
    else:
        await admitted(scope, receive, send)


async def _answer_lifespan(receive: Any, send: Any) -> None:
    watchdog = asyncio.create_task(health.end_if_blocked())
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            watchdog.cancel()
            return
