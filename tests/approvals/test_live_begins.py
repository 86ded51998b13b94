"""The first desk that a live process serves, while it begins to listen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.db import connections
from redis.exceptions import RedisError

from approvals.web import live
from approvals.web.pushed_rows import Browser
from tests.forgery import forge

pytestmark = pytest.mark.django_db(transaction=True)


def is_gap(messages: list[dict[str, Any]]) -> list[bool]:
    """For each message whether the page asks for what it missed, as static/js/live.js does."""
    told, gaps = 0, []
    for message in messages:
        gaps.append(bool(gaps) and message["n"] != told + (len(message["changed"]) > 0))
        told = message["n"]
    return gaps


def heard_of_two_looks(session: str) -> list[dict[str, Any]]:
    """What the page of this session hears when nothing comes through Redis."""
    heard: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        heard.append(json.loads(message["text"]))

    async def sent(socket: live.DeskSocket) -> None:
        while socket._sending is not None:
            await socket._sending

    async def listen() -> None:
        watcher, socket = live.Watcher(), live.DeskSocket(send, session, Browser("en", ""))
        await live.check([socket])
        watcher.sockets.add(socket)
        socket.tell([])
        for _ in range(2):
            await sent(socket)
            await watcher._look()
            await asyncio.gather(*watcher.telling.values())
        await sent(socket)

    try:
        asyncio.run(listen())
    finally:
        connections.close_all()
    return heard


def test_what_happens_before_the_first_look_makes_the_page_ask_for_it(as_alice, a_payment):
    session = as_alice.cookies["assent_session"].value
    a_payment()

    assert is_gap(heard_of_two_looks(session)) == [False, True]


def test_a_page_asks_for_nothing_where_nothing_has_happened(as_alice):
    session = as_alice.cookies["assent_session"].value
    forge("UPDATE ledger_event SET at = at - interval '1 hour'")  # of her role

    assert is_gap(heard_of_two_looks(session)) == [False]


def test_tries_to_listen_while_redis_is_away_leave_nothing_behind(settings):
    away = {**settings.CHANNEL_LAYERS["default"], "CONFIG": {"hosts": ["redis://127.0.0.1:1"]}}
    settings.CHANNEL_LAYERS = {"default": away}  # channels makes its layers anew

    async def left() -> dict[str, Any]:
        for _ in range(2):
            with pytest.raises(RedisError):
                await live.Watcher()._listen()
        return dict(get_channel_layer().channels)

    assert asyncio.run(left()) == {}
