"""Rows that come to open desks with the message that something changed."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from a2a.tasks import questions
from approvals.models import Membership, Preferences, Role
from approvals.web import live, open_sessions, pushed_rows
from approvals.web.pushed_rows import Browser, Reader, Rows
from ledger.models import Agent
from ledger.transactions import coordinator
from tests.conftest import propose

pytestmark = pytest.mark.django_db(transaction=True)


def session_of(client: Client) -> str:
    return client.cookies["assent_session"].value


def reader_of(client: Client, language: str = "en") -> Reader:
    [session] = open_sessions.read_all([session_of(client)])
    return pushed_rows.reader_of(session, Browser(language, ""))


def rows_for(client: Client, *rows: Any, language: str = "en", desks: int = 1) -> Rows:
    return pushed_rows.rows_for(reader_of(client, language), [str(row.pk) for row in rows], desks)


def without_time(html: str) -> str:
    html = re.sub(r' data-(?:server-now|refresh-after)="[^"]*"', "", html)
    return re.sub(r"\d+:\d\d left|\s+", " ", html)


def test_they_are_those_that_the_page_would_fetch(as_alice, as_bob, as_olga, a_payment):
    ordinary, grave = a_payment(), propose("scuttle", rocket="r-1")
    ids = f"id={ordinary.pk}&id={grave.pk}"

    for person in (as_alice, as_bob, as_olga):
        pushed = rows_for(person, ordinary, grave)

        fetched = person.get(f"/rows?{ids}", headers={"HX-Request": "true"}).content.decode()
        assert f"row-{ordinary.pk}" in pushed.html
        assert without_time(pushed.html) == without_time(fetched)


def test_people_of_one_role_and_language_share_them_and_others_do_not(
    as_alice, as_bob, as_olga, bob
):
    shared = reader_of(as_alice)

    assert reader_of(as_bob) == shared
    assert reader_of(as_olga) != shared
    assert reader_of(as_bob, language="de") != shared
    person = Membership.objects.filter(role=Role.APPROVER, user__username="bob").get().user
    Preferences.objects.create(user=person, time_zone="Asia/Tokyo")
    assert reader_of(as_bob) != shared


def test_they_are_in_the_language_of_the_reader(as_alice, a_payment):
    row = a_payment()

    assert "noch 1" in rows_for(as_alice, row, language="de").html
    assert "noch 1" not in rows_for(as_alice, row).html


def test_who_has_voted_proposed_keeps_or_is_asked_fetches_theirs(
    as_olga, as_bob, alice, bob, helpdesk, worker, a_claimed_task
):
    voted = propose("scuttle", rocket="r-1")
    coordinator.approve(voted.pk, digest=voted.intent_digest, by=alice, via="web")
    Agent.objects.filter(pk=helpdesk.pk).update(kept_by="user:77")
    task = a_claimed_task()
    questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="Which?",
        may_answer=["user:bob"],
        via="api",
    )

    not_for = rows_for(as_olga, voted).not_for

    assert {str(alice), str(bob), "user:77"} <= not_for


def heard(*clients: Client, act: Any) -> list[dict[str, Any]]:
    """The last message with changes that the desk of each heard after ``act`` named its rows."""
    messages: dict[int, list[dict[str, Any]]] = {place: [] for place, _ in enumerate(clients)}

    async def listen() -> None:
        watcher, sockets = live.Watcher(), []
        for place, client in enumerate(clients):

            async def send(message: dict[str, Any], place: int = place) -> None:
                messages[place].append(json.loads(message["text"]))

            sockets.append(live.DeskSocket(send, session_of(client), Browser("en", "")))
        await live.check(sockets)
        watcher.sockets.update(sockets)
        for changed in act():
            await watcher._tell("acme", [str(row.pk) for row in changed])
        await asyncio.gather(*watcher.telling.values())
        for socket in sockets:
            while socket._sending is not None:
                await socket._sending

    try:
        asyncio.run(listen())
    finally:
        connections.close_all()
    return [each[-1] for each in messages.values() if each]


def test_desks_hear_of_a_row_and_have_it_and_who_has_voted_asks(as_alice, as_bob, as_olga, alice):
    row = propose("scuttle", rocket="r-1")
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    of_alice, of_bob, of_olga = heard(as_alice, as_bob, as_olga, act=lambda: [[row]])

    assert {tuple(each["changed"]) for each in (of_alice, of_bob, of_olga)} == {(str(row.pk),)}
    assert of_alice["rows"] == ""
    assert 'data-group="mine"' in of_bob["rows"]
    assert 'data-group="others"' in of_olga["rows"]


def test_nobody_hears_of_another_tenants_rows(as_carol, a_payment):
    assert heard(as_carol, act=lambda: [[a_payment()]]) == []


def test_what_changes_soon_after_is_told_together(as_bob, a_payment):
    rows = [a_payment() for _ in range(4)]

    [message] = heard(as_bob, act=lambda: [rows[:1], rows[1:2], rows[2:]])

    assert {str(row.pk) for row in rows[1:]} <= set(message["changed"])


def test_who_has_lost_the_role_unheard_gets_no_row(as_alice, as_bob, a_payment):
    row = a_payment()

    def lose_the_role() -> list[list[Any]]:
        Membership.objects.filter(user__username="alice").delete()  # and no message of it
        return [[row]]

    [of_bob] = heard(as_alice, as_bob, act=lose_the_role)

    assert f"row-{row.pk}" in of_bob["rows"]


def test_without_the_rows_the_page_is_told_all_the_same(as_bob, a_payment, monkeypatch):
    def fail(*_: Any) -> Rows:
        raise RuntimeError("a template that fails")

    monkeypatch.setattr(pushed_rows, "rows_for", fail)
    row = a_payment()

    [message] = heard(as_bob, act=lambda: [[row]])

    assert (message["changed"], message["rows"]) == ([str(row.pk)], "")


def test_the_more_desks_are_open_the_less_often_each_looks_at_its_whole_list(a_payment, as_alice):
    row = a_payment()

    assert 'data-refresh-after="2"' in rows_for(as_alice, row, desks=20).html
    assert 'data-refresh-after="80"' in rows_for(as_alice, row, desks=1000).html
