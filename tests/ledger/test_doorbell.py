"""The doorbell needs no database: the thread that rings has no session to look after."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from a2a.states import TaskEventKind
from ledger.api.waiting import topic_of
from ledger.foundation import doorbell
from ledger.models import Event
from ledger.states import EventKind
from tests.conftest import propose
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("kind", [*EventKind, *TaskEventKind])
def test_no_bell_asks_the_database(kind):
    event = {"subject": uuid4(), "tenant": "acme", "kind": str(kind), "deliveries": [1]}
    asked: list[str] = []

    def refuse(execute: Any, sql: str, *_: Any) -> None:
        asked.append(sql)

    with connection.execute_wrapper(refuse):
        for is_supervised in (False, True):
            doorbell.bell_due.send(
                sender=None, event_id=1, is_first=True, is_supervised=is_supervised, **event
            )

    assert asked == []


def test_supervisors_are_woken_by_what_waits_for_them_alone(acme, monkeypatch):
    """Also by a thread whose database sessions the server has ended, since it has none."""
    monkeypatch.setattr(doorbell, "_background", doorbell._Background())
    channel = doorbell.channel_of(topic_of("acme"))
    with doorbell.redis().pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(channel)
        propose()
        waits = propose("order", item="chair")
        _end_sessions_of_others()
        again = propose("order", item="table")
        messages: list[Any] = []
        until(lambda: messages.extend(_read(heard)) or len(messages) >= 2, what="both were rung")

    assert waits.required_approver == again.required_approver == "SUPERVISOR"
    assert len(messages) == 2
    assert Event.objects.filter(kind=EventKind.PREPARED).count() == 3


def _read(subscription: Any) -> list[Any]:
    message = subscription.get_message(timeout=0.1)
    return [] if message is None else [message]


def _end_sessions_of_others() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
