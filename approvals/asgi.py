"""All that one web process serves: pages, REST, A2A, WebSockets and long-polls."""

from __future__ import annotations

import asyncio
import os
from importlib import import_module
from typing import Any

import django
from django.apps import apps
from django.conf import settings
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "approvals.settings")
_is_its_own_process = not settings.configured
django.setup(set_prefix=False)

from channels.security.websocket import OriginValidator  # noqa: E402

from a2a.protocol import app  # noqa: E402
from approvals import health, lanes, wsgi  # noqa: E402
from approvals.http.admission import fast_path  # noqa: E402
from approvals.http.admission.gate import Gate  # noqa: E402
from approvals.http.admission.long_polls import SMALL_BODY, Waits, network_of_peer  # noqa: E402
from approvals.http.admission.pages import Pages  # noqa: E402
from approvals.http.admission.request_log import RequestLog  # noqa: E402
from approvals.http.admission.throttled_polls import Patience  # noqa: E402
from approvals.web import live  # noqa: E402
from ledger import limits  # noqa: E402
from ledger.foundation import doorbell, liveness  # noqa: E402
from ledger.foundation.lanes import Lane  # noqa: E402
from ledger.foundation.postgres import sessions  # noqa: E402
from ledger.workers import start_checks  # noqa: E402

if _is_its_own_process:
    start_checks.allow_many_connections()
    sessions.bound("web", pool=settings.DATABASE_POOL, serves_people=True)
    doorbell.ring_in_background()
    liveness.show("web")
    start_checks.check_database()
    reverse("desk:inbox")  # loads the pages now, so that the first to ask does not wait for that

# ASGI applications of optional apps: modules with ``is_ours`` and ``application``.
mounts = [import_module(app.asgi) for app in apps.get_app_configs() if hasattr(app, "asgi")]
desk = OriginValidator(live.application, [settings.PUBLIC_URL])


def _pages(lane: Lane, largest_body: int, **options: Any) -> Pages:
    application: Any = wsgi.application
    return Pages(
        application, lane, largest_body=largest_body, body_within_s=settings.BODY_S, **options
    )


LARGE_BODY = 2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE
# The files that people give; the gate allows others less.
pages = _pages(lanes.pages, settings.A2A_BODY_MAX, fast_path=fast_path.respond)
hashing = _pages(lanes.hashing, SMALL_BODY, whose=network_of_peer)
HASHING = frozenset({"/sign-in/", "/password/", "/account/confirm/", "/sign-in/forgotten/"})
# Links, where a password is chosen.
HASHING_BELOW = ("/join/", "/first/")
tokens = _pages(lanes.tokens, SMALL_BODY, whose=network_of_peer)
TOKEN = "/oauth/token"
exports = _pages(lanes.exports, SMALL_BODY)
EXPORT = "/history/export."
proposals = _pages(lanes.proposals, LARGE_BODY, fast_path=fast_path.respond)
PROPOSE = "/api/v1/transactions"
readings = _pages(lanes.readings, LARGE_BODY)
TOOLS, CALL = "/api/v1/tools/", "/call"
ordinary = Waits(pages, body_within_s=settings.BODY_S)


async def _route(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        if scope["path"] == "/ws/desk":
            await desk(scope, receive, send)
        else:
            await send({"type": "websocket.close"})
    elif (mounted := _mounted_at(scope["path"])) is not None:
        await mounted.application(scope, receive, send)
    elif app.is_ours(scope):
        await app.application()(scope, receive, send)
    elif scope["method"] == "POST" and _hashes(scope["path"]):
        # Where it has to wait, it is refused without looking at the password.
        is_of_program = scope["path"] == TOKEN
        door = limits.Door.TOKENS if is_of_program else limits.Door.PEOPLE
        has_to_wait = limits.has_to_wait(network_of_peer(scope), door)
        lane = tokens if is_of_program else hashing
        await (pages if has_to_wait else lane)(scope, receive, send)
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


def _mounted_at(path: str) -> Any:
    return next((each for each in mounts if each.is_ours(path)), None)


def _hashes(path: str) -> bool:
    return path in HASHING or path == TOKEN or path.startswith(HASHING_BELOW)


admitted = RequestLog(Patience(Gate(_route)))


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
