"""Ringing for open desks, from whichever process committed."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections import defaultdict
from uuid import UUID

from channels.layers import get_channel_layer
from django.http import HttpRequest

from ledger.events import chain_of

logger = logging.getLogger(__name__)

GATHER_S = 0.02

# Every live process listens here; it knows which of its sockets belong to which tenant.
GROUP = "desk.changed"


class Ringer:
    """Sends one message per tenant for all events of some milliseconds.

    Prepare is the hot path: it only puts an id into a queue. A thread of the process rings.
    """

    def __init__(self) -> None:
        self._bells: queue.SimpleQueue[tuple[str, str, int]] = queue.SimpleQueue()
        self._pid = 0
        self._lock = threading.Lock()

    def ring(self, tenant: str, subject: UUID, event_id: int) -> None:
        if self._pid != os.getpid():
            self._start()
        self._bells.put((tenant, str(subject), event_id))

    def _start(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                threading.Thread(target=self._run, name="ringer", daemon=True).start()
                self._pid = os.getpid()

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
        async with asyncio.timeout(1):
            await layer.group_send(GROUP, message)


ringer = Ringer()


def ring_live_pages(event_id: int, subject: UUID, tenant: str, **_: object) -> None:
    ringer.ring(tenant, subject, event_id)


def ring_on_sign_out(request: HttpRequest, **_: object) -> None:
    """Close the sockets of this session, which Django deletes right after this signal."""
    if key := request.session.session_key:
        ring_session(key)


def ring_session(key: str) -> None:
    """Close the sockets of a session that has ended."""
    ringer.ring("", session_chain(key), 0)


def session_chain(key: str) -> UUID:
    """An id of the session that does not reveal its key to readers of Redis."""
    return chain_of(f"session:{key}")
