"""No process keeps a database session that nobody uses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest
from django.db import connection

from ledger.foundation.postgres.sessions import STATEMENT_S
from tests.conftest import propose
from tests.processes import running, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
POOL = 6


def sessions_of_others() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_bursts_of_waiting_agents_leave_no_sessions_behind(as_helpdesk):
    rows = [propose(reference=uuid4().hex) for _ in range(20)]
    before = sessions_of_others()
    most = 0
    settings = {"ASSENT_DATABASE_POOL": str(POOL)}
    with running("web", **settings) as product, ThreadPoolExecutor(20) as agents:

        def wait(row) -> int:
            address = f"http://localhost:{product.web_port}/api/v1/transactions/{row.pk}?wait=2"
            headers = {"Authorization": f"Bearer {as_helpdesk.token}"}
            return httpx.get(address, headers=headers, timeout=30).status_code

        for _ in range(6):
            waiting = [agents.submit(wait, row) for row in rows]
            while not all(one.done() for one in waiting):
                most = max(most, sessions_of_others() - before)
            assert {one.result() for one in waiting} == {200}
        assert most <= POOL

        until(lambda: sessions_of_others() - before <= POOL)


def test_a_statement_of_a_page_may_not_take_for_ever(acme):
    from ledger.foundation.postgres import sessions

    wiring = connection.settings_dict
    options = dict(wiring["OPTIONS"])
    try:
        sessions.bound("web")
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone()[0] == f"{STATEMENT_S}s"
    finally:
        wiring["OPTIONS"] = options
        connection.close()
