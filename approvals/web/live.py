"""Live updates: the socket carries ids, and the rows where many pages show the same ones.

The doorbell comes through the channel layer. What it loses, the watcher of each live process finds
in the database within a second, so that Redis may be flushed or gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from channels.layers import get_channel_layer
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.http import parse_cookie
from django.utils import timezone

from approvals.web import open_sessions, pushed_rows
from approvals.web.open_sessions import OpenSession
from approvals.web.pushed_rows import Browser, Reader, Rows
from approvals.web.ringing import GROUP, session_chain
from ledger.api import waiting
from ledger.api.waiting.waiters import Kind, Waiter, waiters
from ledger.errors import LedgerError
from ledger.foundation.batches import Batcher, in_thread
from ledger.foundation.lanes import Lane
from ledger.foundation.postgres.sessions import CONNECTION_LOST

logger = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

FORGET_AFTER_S = 4 * waiting.LOOK_BACK.total_seconds()
CLOSED = 4401  # nobody is signed in, or nobody who may see anything
REFUSED = 4429  # too many are open
TRY_LATER = 1013  # the database is away; the page connects again by itself
BEAT_S = 10.0  # between two signs of life; a page that hears none for 25 s is not live
SLOW_S = 20.0  # for which a page may leave a message unread
TOLD_AT_ONCE = 100  # sockets: to tell thousands takes most of a second
MOST_IDS = 200  # in one message; the browser then asks for the whole list
# Between two messages to a tenant's desks; what changes meanwhile is told together. The pause is
# four times as long as the last message took, within these bounds.
LEAST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
ROWS_WITHIN_S = 2.0  # else the pages ask for them

_rows = Lane("desk rows", 2, daemon=True)


# --- listening, in the live process ------------------------------------------------------------


class Watcher:
    """Tells the sockets of this process what changed, from Redis messages and from the database."""

    def __init__(self) -> None:
        self.sockets: set[DeskSocket] = set()
        self._watch = waiting.Watch(self._listen, self._look, self._check, self._beat)
        self._is_first_look = True
        self._seen: dict[int, float] = {}
        self._due: dict[str, dict[str, None]] = {}  # by tenant, what has not been told yet
        self.telling: dict[str, asyncio.Task[None]] = {}

    def add(self, socket: DeskSocket) -> None:
        self.sockets.add(socket)
        if self._watch.start():
            self._is_first_look = True

    async def _listen(self) -> None:
        layer = get_channel_layer()
        try:
            channel = await layer.new_channel()
            await layer.group_add(GROUP, channel)
            while True:
                await self._pass_on(await _message(layer, channel))
        except Exception:
            await layer.flush()  # which would keep the channel, and whatever comes for it
            raise

    async def _pass_on(self, message: dict[str, Any] | None) -> None:
        if message is not None:
            self._seen.update(dict.fromkeys(message["events"], time.monotonic()))
            await self._tell(message["tenant"], message["changed"])

    async def _look(self) -> None:
        """Tell the sockets of events whose message was lost."""
        is_first = self._is_first_look
        for tenant, changed in (await self._lost(is_first)).items():
            await self._tell(tenant, changed)
        if is_first:  # nobody was told what happened between the first socket and this look
            await check(list(self.sockets))
            for socket in list(self.sockets) if self._seen else []:
                socket.tell_of_a_gap()
        self._is_first_look = False

    async def _check(self) -> None:
        """Close the sockets whose person lost access, even if the message about it was lost."""
        await asyncio.sleep(max(0.0, settings.SOCKET_CHECK_S - waiting.LOOK_EVERY_S))
        await check(list(self.sockets))

    async def _beat(self) -> None:
        """Say something to every page, so that each knows that it would hear of changes."""
        await asyncio.sleep(BEAT_S - waiting.LOOK_EVERY_S)
        for number, socket in enumerate(list(self.sockets), 1):
            socket.tell([])
            if number % TOLD_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _tell(self, tenant: str, changed: list[str]) -> None:
        """Tell those who may know, soon; waits for no socket."""
        subjects = set(changed)
        for socket in [each for each in self.sockets if each.session_chain in subjects]:
            socket.end()
        if changed_users := [each for each in self.sockets if each.user_chain in subjects]:
            try:
                await check(changed_users)
            except Exception as failure:  # _check comes back to them
                logger.warning("people who were changed could not be checked: %r", failure)
        self._due.setdefault(tenant, {}).update(dict.fromkeys(changed))
        if tenant not in self.telling:
            self.telling[tenant] = asyncio.create_task(self._tell_what_is_due(tenant))

    async def _tell_what_is_due(self, tenant: str) -> None:
        try:
            while changed := list(self._due.pop(tenant, ())):
                began = time.monotonic()
                has_checked = await self._check_before_rows(tenant)
                for reader, sockets in self._readers(tenant).items():
                    desks = len(self.sockets) * settings.WEB_PROCESSES
                    rows = await _read(reader, changed, desks) if has_checked else None
                    await self._tell_all(sockets, tenant, changed, rows)
                pause = max(LEAST_PAUSE_S, 4 * (time.monotonic() - began))
                await asyncio.sleep(min(pause, LONGEST_PAUSE_S))
        finally:
            del self.telling[tenant]

    async def _check_before_rows(self, tenant: str) -> bool:
        """Whoever fetches rows is checked at each request; whoever is sent them, too."""
        sockets = [socket for socket in self.sockets if tenant in socket.tenants]
        try:
            async with asyncio.timeout(ROWS_WITHIN_S):
                await check(sockets)
        except Exception as failure:
            logger.warning("open desks could not be checked, and get no rows: %r", failure)
            return False
        return True

    def _readers(self, tenant: str) -> dict[Reader, list[DeskSocket]]:
        readers: dict[Reader, list[DeskSocket]] = defaultdict(list)
        for socket in self.sockets:
            if tenant in socket.tenants:
                readers[socket.reader].append(socket)
        return readers

    async def _tell_all(
        self, sockets: list[DeskSocket], tenant: str, changed: list[str], rows: Rows | None
    ) -> None:
        for number, socket in enumerate(sockets, 1):
            if socket in self.sockets and tenant in socket.tenants:
                is_for_them = rows is not None and socket.principal not in rows.not_for
                socket.tell(changed, rows.html if rows is not None and is_for_them else "")
            if number % TOLD_AT_ONCE == 0:
                await asyncio.sleep(0)  # whoever else waits in this process has a turn

    async def _lost(self, is_first: bool) -> dict[str, list[str]]:
        recent = await in_thread(_recent_events)
        lost: dict[str, list[str]] = defaultdict(list)
        now = time.monotonic()
        for event_id, tenant, subject in recent:
            if event_id not in self._seen:
                self._seen[event_id] = now
                if not is_first and subject not in lost[tenant]:
                    lost[tenant].append(subject)
        self._seen = {event: at for event, at in self._seen.items() if now - at < FORGET_AFTER_S}
        return lost


async def _read(reader: Reader, changed: list[str], desks: int) -> Rows | None:
    """The rows; ``None`` if they are too many or late: then each page asks for its own."""
    if len(changed) > MOST_IDS:
        return None
    try:
        async with asyncio.timeout(ROWS_WITHIN_S):
            return await _rows.run("", pushed_rows.rows_for, reader, changed, desks)
    except Exception as failure:
        logger.warning("rows for open desks could not be read: %r", failure)
        return None


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


class DeskSocket:
    """The socket of one open page. It is told of changes in its person's tenants only.

    Nobody waits for a page that does not read: what happens meanwhile is gathered into one message,
    and a page that takes none for ``SLOW_S`` seconds is cut off.
    """

    def __init__(self, send: Send, session_key: str, browser: Browser) -> None:
        self.session_key, self._browser = session_key, browser
        self.session_chain = str(session_chain(session_key)) if session_key else ""
        self.user_chain = ""
        self.see(open_sessions.NOBODY)
        self._send = send
        self._changed: dict[str, None] = {}
        self._rows = ""
        self._is_due = False
        self._told = 0  # messages with changes; the page counts along
        self._sending: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[Any] | None = None
        self._is_ended = self._is_slow = False

    def see(self, session: OpenSession) -> None:
        """Note what the session's person may be told of."""
        self.user_chain, self.tenants = session.user_chain, session.tenants
        self.principal = session.principal
        self.reader = pushed_rows.reader_of(session, self._browser)

    async def serve(self, receive: Receive, address: str) -> None:
        """Until the person leaves, or may see nothing any more."""
        self._serving = asyncio.current_task()
        try:
            await self._serve(receive, address)
        except asyncio.CancelledError:
            if not self._is_ended or self._serving is None:
                raise
            self._serving.uncancel()
        finally:
            watcher.sockets.discard(self)
            if self._sending is not None:
                self._sending.cancel()
        if self._is_ended and not self._is_slow:
            await self._send({"type": "websocket.close", "code": CLOSED})

    async def _serve(self, receive: Receive, address: str) -> None:
        await receive()  # websocket.connect
        await check([self])
        if self._is_ended:
            return
        with waiters.admitted(Waiter(Kind.SOCKET, "", self.user_chain, address)):
            await self._send({"type": "websocket.accept"})
            watcher.add(self)
            self.tell([])
            # Any message is a sign of life; its content is not read.
            while (await receive())["type"] == "websocket.receive":
                await check([self])
                if self._is_ended:
                    return
                self.tell([])

    def end(self) -> None:
        """Close the socket and send nothing more through it."""
        self.tenants = frozenset()
        watcher.sockets.discard(self)
        if not self._is_ended:
            self._is_ended = True
            if self._serving is not None and self._serving is not asyncio.current_task():
                self._serving.cancel()

    def tell(self, changed: list[str], rows: str = "") -> None:
        """Send the ids that changed and the time, as soon as the page reads. Returns at once.

        ``rows`` are theirs as HTML; without them, and for what is gathered, the page asks.
        """
        if changed:
            self._rows = "" if self._changed else rows
        self._changed.update(dict.fromkeys(changed[: MOST_IDS + 1]))
        self._is_due = True
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_what_is_due())

    def tell_of_a_gap(self) -> None:
        """The page asks for what changed since it last heard something."""
        self._told += 1
        self.tell([])

    async def _send_what_is_due(self) -> None:
        try:
            while self._is_due:
                text = self._message()
                async with asyncio.timeout(SLOW_S):
                    await self._send({"type": "websocket.send", "text": text})
        except TimeoutError:
            logger.info("an open desk did not read for %s s and is cut off", SLOW_S)
            self._is_slow = True
            self.end()
        finally:
            self._sending = None

    def _message(self) -> str:
        changed, self._changed, self._is_due = list(self._changed), {}, False
        rows, self._rows = self._rows, ""
        now = timezone.now().isoformat()
        is_everything = len(changed) > MOST_IDS
        self._told += bool(changed)
        body = {"changed": changed[:MOST_IDS], "is_everything": is_everything}
        return json.dumps({**body, "rows": rows, "now": now, "n": self._told})


async def application(scope: Any, receive: Receive, send: Send) -> None:
    """The socket of the desk, as an ASGI application."""
    headers = dict(scope["headers"])
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    client = scope.get("client")
    accepts = headers.get(b"accept-language", b"").decode("latin-1")
    browser = pushed_rows.browser_of(cookies, accepts)
    socket = DeskSocket(send, cookies.get(settings.SESSION_COOKIE_NAME, ""), browser)
    try:
        await socket.serve(receive, str(client[0]) if client else "")
    except LedgerError as refusal:
        logger.info("an open desk is refused: %s", refusal)
        await send({"type": "websocket.close", "code": REFUSED})
    except CONNECTION_LOST as failure:
        logger.warning("an open desk is closed: no answer of the database: %s", failure)
        await send({"type": "websocket.close", "code": TRY_LATER})


async def check(sockets: list[DeskSocket]) -> None:
    """Read again what each socket may be told of, together; close those with nothing."""
    if len(sockets) == 1:
        seen = [await _sessions.ask(sockets[0].session_key)]
    else:
        keys = [socket.session_key for socket in sockets]
        seen = await in_thread(open_sessions.read_all, keys)
    for socket, session in zip(sockets, seen, strict=True):
        socket.see(session)
        if not socket.tenants:
            socket.end()


_sessions = Batcher(open_sessions.read_all)
