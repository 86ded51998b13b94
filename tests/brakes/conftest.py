"""Brakes put and lifted by a command on the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger.events import brakes
from ledger.events.brakes import Scope
from ledger.models import Brake
from ledger.principals import Surface, system
from tests.rules.conftest import activated, olga, otto  # noqa: F401

SERVER = system("command", "olga on the server")
WHY = "It pays twice."


@pytest.fixture
def stop() -> Callable[..., Brake]:
    def put(tenant: str = "", agent: str = "", tool: str = "", **said: Any) -> Brake:
        said = {"why": WHY, "by": SERVER, "via": Surface.COMMAND, **said}
        done = brakes.put(Scope(tenant, agent, tool), **said)
        assert done.is_waited_for
        return done.brake

    return put


@pytest.fixture
def let_go_on() -> Callable[[Brake], Brake]:
    return lambda brake: brakes.lift(brake.pk, by=SERVER, via=Surface.COMMAND)
