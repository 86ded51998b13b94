"""What a load balancer is told, by a process whose settings name several database servers."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from django.db import connection

from approvals import health
from tests import faults
from tests.asgi import requested

pytestmark = pytest.mark.django_db(transaction=True)


def missing(monkeypatch: pytest.MonkeyPatch, *urls: str) -> set[str]:
    """What is missing with these servers, the first one first."""
    ports = ",".join(str(urlsplit(url).port) for url in urls)
    hosts = ",".join("127.0.0.1" for _ in urls)
    monkeypatch.setitem(connection.settings_dict, "HOST", hosts)
    monkeypatch.setitem(connection.settings_dict, "PORT", ports)
    monkeypatch.setattr(health, "_last", (float("-inf"), {}))
    monkeypatch.setattr(health, "_lock", asyncio.Lock())
    try:
        return set(asyncio.run(health.what_is_missing()))
    finally:
        monkeypatch.undo()


@pytest.mark.slow
def test_a_silent_server_keeps_nobody_from_the_one_that_answers(monkeypatch):
    with ExitStack() as stack:
        url = os.environ["DATABASE_URL"]
        (silent, first), (_, second) = (stack.enter_context(faults.network(url)) for _ in range(2))
        silent.swallow()

        assert "database" not in missing(monkeypatch, first, second)
        assert "database" not in missing(monkeypatch, second, first)
        assert "database" in missing(monkeypatch, first)
        silent.restore()


def test_the_pages_of_health_have_the_headers_of_every_answer():
    answer = requested("GET", "/healthz", "none")

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.django_db
def test_an_answer_of_rest_is_kept_by_nothing_between(as_helpdesk):
    assert as_helpdesk.get("/transactions")["Cache-Control"] == "no-store"
