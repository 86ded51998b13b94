"""A web process, two agents with tokens, and a manager who is signed in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.models import AgentToken
from tests.processes import Product, running


@pytest.fixture
def tokens(helpdesk, supervisor) -> tuple[str, str]:
    return tuple(
        AgentToken.issue(agent, scopes=["propose", "submit"])[1] for agent in (helpdesk, supervisor)
    )


@pytest.fixture
def as_manager(alice_user, as_alice) -> dict[str, str]:
    return {"Cookie": f"assent_session={as_alice.cookies['assent_session'].value}"}


def started(**environment: str) -> Iterator[Product]:
    with running("web", **environment) as product:
        yield product


@pytest.fixture
def live(acme) -> Iterator[Product]:
    yield from started()


@pytest.fixture
def limited(acme) -> Iterator[Product]:
    limits = "token.requests=1,agent.requests=1,address.requests=1,address.sign_ins=1000"
    yield from started(ASSENT_LIMITS=limits)
