"""Switching off beside a program that asks for a token at that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections as databases
from django.db.transaction import atomic

from approvals.oauth import connections
from approvals.oauth.models import Client
from approvals.oauth.workloads import issuers
from ledger.models import AgentToken
from ledger.principals import Surface
from tests.oauth.workloads.conftest import exchange
from tests.oauth.workloads.test_client_credentials import ask, client_of_helpdesk

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["client_of_helpdesk"]
BY = {"by": connections.TOKEN_ENDPOINT, "via": Surface.SYSTEM}


@contextmanager
def beside(work: Callable[[], Any]) -> Iterator[list[Any]]:
    """What is in the block is not committed before the work has ended, or waits for it."""

    def alone() -> Any:
        try:
            return work()
        finally:
            databases.close_all()

    answers: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        with atomic():
            yield answers
            asked = pool.submit(alone)
            wait([asked], timeout=1)
        answers.append(asked.result())


def test_an_issuer_gives_nothing_that_outlives_it(issuer, key):
    with beside(lambda: exchange(key.token())) as answers:
        issuers.switch_off(issuer, **BY)

    assert answers[0].json()["error"] == "invalid_grant"
    assert not AgentToken.objects.filter(revoked_at=None).exists()


def test_a_client_with_a_secret_gets_nothing_that_outlives_it(client_of_helpdesk):
    with beside(ask) as answers:
        Client.objects.update(is_active=False)
        connections.end_client(client_of_helpdesk, **BY)

    assert answers[0].json()["error"] == "invalid_client"
    assert not AgentToken.objects.exists()
