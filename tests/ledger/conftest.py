"""The ledger's history, and what somebody with the database's own password could do to it."""

from __future__ import annotations

import pytest
from django.db import connection

from ledger.models import Event
from ledger.proof.log import checkpoints
from tests.ledger.webhook_receiver import Receiver


@pytest.fixture
def forge():
    """What somebody with the database's own password could do: past the triggers."""

    def run(sql: str, *values: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            cursor.execute(sql, values)
            cursor.execute("SET session_replication_role = DEFAULT")

    return run


@pytest.fixture
def events(a_payment):
    """As many more events as are asked for."""

    def more(count: int) -> None:
        row = a_payment()
        last = Event.objects.get(subject=row.pk)
        for _ in range(count - 1):
            last.pk = None
            last._state.adding = True
            last.kind, last.to_state = "noted", last.to_state
            last.save(force_insert=True)

    return more


@pytest.fixture
def trusted():
    return checkpoints.own_public_keys()


@pytest.fixture
def receiver():
    """A receiver of webhooks that checks their signature."""
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()
