"""Rules that are active, as two operators would have made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from approvals.people import principal_of
from ledger.events import four_eyes
from ledger.models import RuleSet, Tenant
from ledger.principals import Principal
from ledger.sign_off import rules
from ledger.sign_off.rules import sets

SMALL_PASS = {"when": {"tool": "refund", "amount": {"below": "50 EUR"}}, "then": "pass"}
LARGE_TAKE_TWO = {
    "when": {"amount": {"at_least": "1000 EUR"}},
    "then": {"verdict": "ask", "seats": {"approvers": 2}},
}
NO_LAUNCH = {"when": {"tool": "launch"}, "then": "deny"}


@pytest.fixture
def olga(olga_user: Any) -> Principal:
    return principal_of(olga_user)


@pytest.fixture
def otto(otto_user: Any) -> Principal:
    return principal_of(otto_user)


@pytest.fixture
def activated(acme: Tenant, olga: Principal, otto: Principal) -> Callable[..., RuleSet]:
    """Edit, activate, and confirm what loosens."""

    def make(*written: dict[str, Any]) -> RuleSet:
        draft = sets.edit("acme", [*written], seen="", by=olga)
        waiting = rules.activate("acme", seen=draft.sha256, by=olga, via="web")
        if waiting is not None:
            four_eyes.confirm(waiting, seen=waiting.sha256, by=otto, via="web")
        active = rules.active("acme")
        assert active is not None
        return active

    return make
