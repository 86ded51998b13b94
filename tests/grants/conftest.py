"""Grants and budgets, as people give them at the desk."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ledger.models import Grant
from ledger.principals import Principal
from ledger.sign_off import grants
from tests.rules.conftest import activated, olga, otto

__all__ = ["activated", "olga", "otto"]

HELPDESK = "agent:acme/helpdesk"
TEN_TIMES = {"most": "10", "per": "total"}


def of(total: str, per: str = "total") -> dict[str, str]:
    return {"most": total, "per": per}


def wanted(**changes: Any) -> grants.Wanted:
    """Refunds of at most 50 EUR each, 500 EUR in all, ten times, for an hour."""
    values: dict[str, Any] = {
        "tenant": "acme",
        "agent": HELPDESK,
        "tool": "refund",
        "when": {"amount": {"at_most": "50 EUR"}},
        "budgets": [of("500 EUR"), TEN_TIMES],
        "lasts": timedelta(hours=1),
    }
    return grants.Wanted(**values | changes)


@pytest.fixture
def allowed(acme: Any, alice: Principal) -> Callable[..., Grant]:
    """Alice signs in advance."""

    def give(by: Principal = alice, **changes: Any) -> Grant:
        return grants.give(wanted(**changes), by=by, via="web")

    return give
