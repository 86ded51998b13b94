"""A product that runs, with people and agents at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth.models import User

from ledger.models import Agent
from tests.chaos.people import Helpdesk, Person
from tests.processes import Product, running


@pytest.fixture
def product(acme: Any) -> Iterator[Product]:
    with running("sandbox") as product:
        yield product


People = Callable[[Product], tuple[Person, Helpdesk]]


@pytest.fixture
def people(alice_user: User, helpdesk: Agent) -> Iterator[People]:
    """alice and an agent at work with a product that runs already."""
    with ExitStack() as stack:

        def at_work(product: Product) -> tuple[Person, Helpdesk]:
            product.url = product.environment["ASSENT_LIVE_URL"]
            alice, agent = Person(product, "alice"), Helpdesk(product, helpdesk)
            for each in (alice, agent):
                stack.callback(each.http.close)
            return alice, agent

        yield at_work
