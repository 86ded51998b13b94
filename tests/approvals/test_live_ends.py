"""An open desk is closed as soon as its person may not listen any more."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.test import Client
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from approvals.local import embedded_services
from approvals.models import Membership
from approvals.web import live as live_module, open_sessions
from ledger.events import account_changes
from ledger.foundation import doorbell
from tests.processes import Product, running, until

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE_S = 10  # of a machine under load; the check that would close it anyway comes much later
NEVER = "3600"


@contextmanager
def opened(product: Product, person: Client) -> Iterator[ClientConnection]:
    cookie = f"assent_session={person.cookies['assent_session'].value}"
    there = f"ws://localhost:{product.web_port}/ws/desk"
    with connect(there, origin=product.url, additional_headers={"Cookie": cookie}) as socket:
        assert "changed" in socket.recv(timeout=10)
        yield socket


def closed_with(socket: ClientConnection) -> int | None:
    """The code it was closed with; whatever it heard before does not matter."""
    try:
        while True:
            socket.recv(timeout=AT_ONCE_S)
    except ConnectionClosed as end:
        return end.rcvd.code if end.rcvd else None


def test_a_cookie_that_is_no_key_closes_nobody_elses_desk(as_alice):
    key = as_alice.cookies["assent_session"].value

    seen = open_sessions.read_all(["\0abc", "\ud800", key])

    assert [bool(session.tenants) for session in seen] == [False, False, True]


def record(person: User, kind: str) -> None:
    account_changes.record_change(
        f"user:{person.pk}", kind, tenant="", by=account_changes.command_principal(), via="command"
    )


def deactivated(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_active=False)
    record(person, "user_deactivated")


def without_roles(person: User) -> None:
    Membership.objects.filter(user=person).delete()
    record(person, "role_revoked")


def with_another_password(person: User) -> None:
    person.set_password("another one, and long")
    person.save()
    record(person, "password_changed")


@pytest.fixture(scope="module")
def live(django_db_setup: None, django_db_blocker) -> Iterator[Product]:
    with django_db_blocker.unblock(), running("web", ASSENT_SOCKET_CHECK_S=NEVER) as product:
        yield product


def test_signing_out_closes_what_the_session_has_open_and_nothing_else(live, as_alice, as_bob):
    with opened(live, as_bob) as bobs, opened(live, as_alice) as alices:
        until(lambda: any(b"desk.changed" in one for one in doorbell.redis().pubsub_channels()))
        as_alice.post("/sign-out")

        assert closed_with(alices) == 4401
        bobs.send("{}")
        assert "changed" in bobs.recv(timeout=10)


@pytest.mark.parametrize("happens", [deactivated, without_roles, with_another_password])
def test_who_may_see_nothing_any_more_is_closed_at_once(live, as_alice, alice_user, happens):
    with opened(live, as_alice) as socket:
        with atomic():
            happens(alice_user)

        assert closed_with(socket) == 4401


@pytest.mark.slow
def test_with_redis_frozen_it_is_closed_at_the_next_check(as_alice, as_bob, bob_user, tmp_path):
    with ExitStack() as stack:
        url = embedded_services.start_redis(tmp_path, stack)
        pid = _redis_in(tmp_path)
        product = stack.enter_context(running("web", REDIS_URL=url, ASSENT_SOCKET_CHECK_S="0.5"))
        alices = stack.enter_context(opened(product, as_alice))
        bobs = stack.enter_context(opened(product, as_bob))
        os.kill(pid, signal.SIGSTOP)
        stack.callback(os.kill, pid, signal.SIGCONT)

        as_alice.post("/sign-out")
        User.objects.filter(pk=bob_user.pk).update(is_active=False)  # by hand, without an event

        assert closed_with(alices) == 4401
        assert closed_with(bobs) == 4401


def _redis_in(folder: Path) -> int:
    return int((folder / "redis.pid").read_text().split()[0].split(":")[0])


def test_a_page_that_does_not_read_is_cut_off_and_delays_no_other(
    as_alice, as_bob, acme, monkeypatch
):
    monkeypatch.setattr(live_module, "SLOW_S", 0.3)
    many = [str(uuid4()) for _ in range(live_module.MOST_IDS + 50)]

    async def talk() -> tuple[dict[str, Any], int]:
        stuck, reads = _Page(as_alice), _Page(as_bob)
        pages = [asyncio.create_task(page.open()) for page in (stuck, reads)]
        await asyncio.gather(stuck.sent.get(), reads.sent.get())  # accepted
        await asyncio.gather(stuck.sent.get(), reads.sent.get())  # the first message
        stuck.is_stuck = True
        await live_module.watcher._tell("acme", ["before"])
        for each in many:
            await live_module.watcher._tell("acme", [each])
        heard = await _next_with_changes(reads)
        await asyncio.wait_for(pages[0], 5)
        left = len(live_module.watcher.sockets)
        reads.leave()
        await pages[1]
        return heard, left

    heard, left = asyncio.run(talk())

    assert heard["changed"][0] == "before"
    assert left == 1


async def _next_with_changes(page: _Page) -> dict[str, Any]:
    """Without those that only say that the page is live, or may have missed something."""
    while True:
        message: dict[str, Any] = json.loads((await page.sent.get())["text"])
        if message["changed"]:
            return message


def test_what_happens_while_a_page_does_not_read_becomes_one_message(as_alice):
    async def talk() -> dict[str, Any]:
        page = _Page(as_alice)
        serving = asyncio.create_task(page.open())
        await page.sent.get()
        await page.sent.get()
        page.is_stuck = True
        (socket,) = live_module.watcher.sockets
        for number in range(live_module.MOST_IDS + 1):
            socket.tell([str(number)])
            await asyncio.sleep(0)
        page.is_stuck = False
        page.may_send.set()
        await _next_with_changes(page)
        told = await _next_with_changes(page)
        page.leave()
        await serving
        return told

    told = asyncio.run(talk())

    assert len(told["changed"]) == live_module.MOST_IDS


class _Page:
    """An open page whose browser may stop to read."""

    def __init__(self, person: Client) -> None:
        self.cookie = f"assent_session={person.cookies['assent_session'].value}".encode()
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.may_send = asyncio.Event()
        self.is_stuck = False

    async def open(self) -> None:
        self.received.put_nowait({"type": "websocket.connect"})
        headers = [(b"cookie", self.cookie)]
        await live_module.application({"headers": headers}, self.received.get, self._send)

    async def _send(self, message: Any) -> None:
        if self.is_stuck:
            await self.may_send.wait()
        self.sent.put_nowait(message)

    def leave(self) -> None:
        self.received.put_nowait({"type": "websocket.disconnect", "code": 1000})
