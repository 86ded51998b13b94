"""Live updates: the socket carries ids, the browser asks for the rows.

The doorbell comes through the channel layer. What it loses, the watcher of each live process finds
in the database within a second, so that Redis may be flushed or gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections import defaultdict
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from channels.layers import get_channel_layer
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.utils import timezone

from approvals.http.middleware import tenants_of
from ledger import principals, waiting
from ledger.events import account_changes

logger = logging.getLogger(__name__)

GATHER_S = 0.02
FORGET_AFTER_S = 4 * waiting.LOOK_BACK.total_seconds()
CLOSED = 4401  # nobody is signed in, or nobody who may see anything
MOST_IDS = 200  # in one message; the browser then asks for the whole list


# Every live process listens here; it knows which of its sockets belong to which tenant.
GROUP = "desk.changed"


# --- ringing, from whichever process committed -----------------------------------------------


class Ringer:
    """Sends one message per tenant for all events of some milliseconds.

    Prepare is the hot path: it only puts an id into a queue. A thread of the process rings.
    """

    def __init__(self) -> None:
        self._bells: queue.SimpleQueue[tuple[str, str, int]] = queue.SimpleQueue()
        self._pid = 0
        self._lock = threading.Lock()

    def ring(self, tenant: str, subject: UUID, event_id: int) -> None:
        self._bells.put((tenant, str(subject), event_id))
        if self._pid != os.getpid():
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._run, name="ringer", daemon=True).start()

    def _run(self) -> None:
        # One loop for good: with it the connection to Redis stays open.
        loop = asyncio.new_event_loop()
        while True:
            bells = [self._bells.get()]
            time.sleep(GATHER_S)
            while not self._bells.empty():
                bells.append(self._bells.get())
            by_tenant: dict[str, list[tuple[str, int]]] = defaultdict(list)
            for tenant, subject, event_id in bells:
                by_tenant[tenant].append((subject, event_id))
            try:
                loop.run_until_complete(_send(by_tenant))
            except Exception as failure:
                logger.info("no live bell: %s", failure)


async def _send(by_tenant: dict[str, list[tuple[str, int]]]) -> None:
    layer = get_channel_layer()
    for tenant, bells in by_tenant.items():
        message = {
            "type": "desk.changed",
            "tenant": tenant,
            "changed": list(dict.fromkeys(subject for subject, _ in bells)),
            "events": [event_id for _, event_id in bells],
        }
        await asyncio.wait_for(layer.group_send(GROUP, message), timeout=1)


ringer = Ringer()


def ring_live_pages(event_id: int, subject: UUID, tenant: str, **_: object) -> None:
    ringer.ring(tenant, subject, event_id)


def ring_on_sign_out(request: HttpRequest, **_: object) -> None:
    """Close the sockets of this session, which Django deletes right after this signal."""
    if key := request.session.session_key:
        ringer.ring("", _session_chain(key), 0)


def _session_chain(key: str) -> UUID:
    """An id of the session that does not reveal its key to readers of Redis."""
    return account_changes.chain_of(f"session:{key}")


# --- listening, in the live process ------------------------------------------------------------


class Watcher:
    """Tells the sockets of this process what changed, from Redis messages and from the database."""

    def __init__(self) -> None:
        self.sockets: set[DeskConsumer] = set()
        self._watch = waiting.Watch(self._listen, self._look, self._check)
        self._is_first_look = True
        self._seen: dict[int, float] = {}

    def add(self, socket: DeskConsumer) -> None:
        self.sockets.add(socket)
        if self._watch.start():
            self._is_first_look = True

    async def _listen(self) -> None:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        while True:
            await self._pass_on(await _message(layer, channel))

    async def _pass_on(self, message: dict[str, Any] | None) -> None:
        if message is not None:
            self._seen.update(dict.fromkeys(message["events"], time.monotonic()))
            await self._tell(message["tenant"], message["changed"])

    async def _look(self) -> None:
        """Tell the sockets of events whose message was lost."""
        is_first = self._is_first_look
        for tenant, changed in (await self._lost(is_first)).items():
            await self._tell(tenant, changed)
        if is_first:  # what happened between the first socket and this look is not told
            await _look_again(list(self.sockets))
        self._is_first_look = False

    async def _check(self) -> None:
        """Close the sockets whose person lost access, even if the message about it was lost."""
        await asyncio.sleep(settings.SOCKET_CHECK_S)
        await _look_again(list(self.sockets))

    async def _tell(self, tenant: str, changed: list[str]) -> None:
        subjects = set(changed)
        if ended := [each for each in self.sockets if each.session_chain in subjects]:
            for socket in ended:
                socket.end()
        if changed_users := [each for each in self.sockets if each.user_chain in subjects]:
            await _look_again(changed_users)
        await asyncio.gather(
            *(socket.tell(changed) for socket in self.sockets if tenant in socket.tenants),
            return_exceptions=True,
        )

    async def _lost(self, is_first: bool) -> dict[str, list[str]]:
        recent = await database_sync_to_async(_recent_events)()
        lost: dict[str, list[str]] = defaultdict(list)
        now = time.monotonic()
        for event_id, tenant, subject in recent:
            if event_id not in self._seen:
                self._seen[event_id] = now
                if not is_first and subject not in lost[tenant]:
                    lost[tenant].append(subject)
        self._seen = {event: at for event, at in self._seen.items() if now - at < FORGET_AFTER_S}
        return lost


async def _message(layer: Any, channel: str) -> dict[str, Any] | None:
    """The next message; ``None`` for one that is not ours."""
    try:
        message: dict[str, Any] = await layer.receive(channel)
        return message
    except (InvalidToken, ValueError, TypeError) as failure:
        logger.warning("a message in Redis is not one of ours and is dropped: %r", failure)
        return None


def _recent_events() -> list[tuple[int, str, str]]:
    rows = waiting.recent_events().values_list("pk", "tenant", "subject")
    return [(pk, tenant, str(subject)) for pk, tenant, subject in rows]


watcher = Watcher()


class DeskConsumer(AsyncJsonWebsocketConsumer):
    """The socket of one open page. It is told of changes in its person's tenants only."""

    # The watcher listens for all sockets of the process; so a socket works without Redis as well.
    channel_layer_alias = "none"
    tenants: frozenset[str] = frozenset()
    session_chain = user_chain = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._ended = asyncio.Event()

        async def receive_until_ended() -> Any:
            """The server sends no close while it waits for the browser, so the wait ends first."""
            received = asyncio.ensure_future(receive())
            ended = asyncio.ensure_future(self._ended.wait())
            try:
                await asyncio.wait({received, ended}, return_when=asyncio.FIRST_COMPLETED)
                if received.done():
                    return received.result()
            finally:
                received.cancel()
                ended.cancel()
            await send({"type": "websocket.close", "code": CLOSED})
            return {"type": "websocket.disconnect", "code": CLOSED}

        await super().__call__(scope, receive_until_ended, send)

    def end(self) -> None:
        """Close the socket and send nothing more through it."""
        self.tenants = frozenset()
        watcher.sockets.discard(self)
        self._ended.set()

    async def connect(self) -> None:
        key = self.scope["session"].session_key
        self.session_chain = str(_session_chain(key)) if key else ""
        self.user_chain = str(account_changes.chain_of(str(principals.user(self.scope["user"].pk))))
        await _look_again([self])
        if not self.tenants:
            return
        await self.accept()
        watcher.add(self)
        await self.tell([])

    async def disconnect(self, code: int) -> None:
        watcher.sockets.discard(self)

    async def receive(self, text_data: Any = None, bytes_data: Any = None, **_: Any) -> None:
        """Any message is a sign of life; its content is not read."""
        await self.receive_json(None)

    async def receive_json(self, content: Any, **_: Any) -> None:
        """On a sign of life, check the session again and send the time."""
        await _look_again([self])
        if self.tenants:
            await self.tell([])

    async def tell(self, changed: list[str]) -> None:
        await self.send_json(
            {
                "changed": changed[:MOST_IDS],
                "is_everything": len(changed) > MOST_IDS,
                "now": timezone.now().isoformat(),
            }
        )


async def _look_again(sockets: list[DeskConsumer]) -> None:
    """Read again which tenants each socket may be told of; close those with none."""
    scopes = [socket.scope for socket in sockets]
    visible = await database_sync_to_async(_tenants_of_sessions)(scopes)
    for socket, tenants in zip(sockets, visible, strict=True):
        socket.tenants = tenants
        if not tenants:
            socket.end()


def _tenants_of_sessions(scopes: list[Any]) -> list[frozenset[str]]:
    return [_tenants_of_session(scope) for scope in scopes]


def _tenants_of_session(scope: Any) -> frozenset[str]:
    """Read from the session each time, so a person who signed out is told nothing more."""
    session = SessionStore(scope["session"].session_key)
    request = HttpRequest()
    request.session = session
    return tenants_of(get_user(request))
