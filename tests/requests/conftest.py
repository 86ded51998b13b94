"""Transactions that wait, and what people do with them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Transaction
from ledger.principals import Principal
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.rules.conftest import activated, olga, otto

__all__ = ["activated", "olga", "otto"]


def approve(row: Transaction, by: Principal) -> Transaction:
    return coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")


@pytest.fixture
def refund(helpdesk: Any) -> Transaction:
    """A proposal with one wrong digit."""
    return propose("refund", order="o1", amount="482.00")


@pytest.fixture
def reserved(helpdesk: Any) -> Transaction:
    """A proposal whose plan holds a room."""
    return propose("reserve", guest="Ada", room="7", nights=1)


@pytest.fixture
def edited(alice: Principal) -> Callable[..., Transaction]:
    """Alice corrects what she sees."""

    def edit(row: Transaction, by: Principal = alice, reason: str = "", **arguments: Any) -> Any:
        return coordinator.revise(
            row.pk, arguments, digest=row.intent_digest, by=by, via="web", reason=reason
        )

    return edit
