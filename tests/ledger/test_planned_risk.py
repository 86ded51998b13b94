"""The risk of one call, as its plan states it: higher than that of the contract, never lower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from examples import verify as second
from ledger import contracts, seals
from ledger.errors import InvalidRequest, PlanFailed
from ledger.models import Transaction
from ledger.proof.audit import exports, verification
from ledger.proof.log import checkpoints
from tests.conftest import propose
from tests.evidence.test_sealed import PUBLIC_KEY
from tests.forgery import forge
from tests.http_tools.conftest import registered, service  # noqa: F401  (fixtures)

pytestmark = pytest.mark.django_db(transaction=True)
_numbers = count(1)


@pytest.fixture
def move(acme: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Transaction]:
    """Proposes a call of a tool with a contract of this risk, whose plan says another one."""

    def make(of_contract: str, of_plan: str, **terms: Any) -> Transaction:
        def move(number: int) -> dict[str, str]:
            return {"receipt_id": f"moved-{number}"}

        contract = replace(
            contracts.tools["pay"].contract,
            operation_key="move:{tenant}:{number}",
            compensation="",
            subject="",
            risk_level=of_contract,
            **terms,
        )
        tool = contracts.Tool(move, contract)

        @tool.plan
        def plan(number: int) -> contracts.Plan:
            return contracts.Plan("Move it", risk_level=of_plan)

        monkeypatch.setitem(contracts.tools, "move", tool)
        return propose("move", number=next(_numbers))

    return make


@pytest.mark.parametrize(
    ("of_contract", "of_plan", "shown"),
    [
        ("LOW", "", "LOW"),
        ("LOW", "HIGH", "HIGH"),
        ("MEDIUM", "CRITICAL", "CRITICAL"),
        ("HIGH", "LOW", "HIGH"),
        ("CRITICAL", "HIGH", "CRITICAL"),
    ],
)
def test_a_plan_raises_the_risk_of_a_call_and_never_lowers_it(move, of_contract, of_plan, shown):
    row = move(of_contract, of_plan)

    assert row.risk_level == shown
    assert seals.intent_of(row)["risk_level"] == shown
    assert row.is_untouched


@pytest.mark.parametrize("of_plan", ["high", "URGENT", "0"])
def test_a_risk_that_is_none_is_refused(move, of_plan):
    with pytest.raises(InvalidRequest, match="is not one of LOW, MEDIUM, HIGH, CRITICAL"):
        move("LOW", of_plan)


def test_what_is_grave_is_not_prepared_where_nobody_has_to_approve_it(move):
    assert move("LOW", "MEDIUM", required_approver="NONE").risk_level == "MEDIUM"

    with pytest.raises(PlanFailed, match="nobody has to approve it"):
        move("LOW", "HIGH", required_approver="NONE")


def test_a_service_states_the_risk_of_a_call_in_its_plan(service, registered):  # noqa: F811
    registered()
    plan = {"summary": "Refund it", "risk_level": "CRITICAL"}
    service.answers["plan"] = (200, {"plan": plan})

    assert propose("refund_invoice", invoice="7", amount=48.2).risk_level == "CRITICAL"


def test_both_verifiers_find_a_risk_that_was_lowered_afterwards(move):
    row = move("LOW", "CRITICAL")
    forge("UPDATE ledger_transaction SET risk_level = 'LOW' WHERE id = %s", row.pk)

    checkpoints.make()
    with pytest.raises(verification.Broken, match="intent"):
        verification.verify(frozenset({PUBLIC_KEY.hex()}))
    assert any("intent" in fault for fault in second.verify(exports.export_lines(), [PUBLIC_KEY]))
