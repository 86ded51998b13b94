"""An unsafe contract does not start; a safe one is typed and published."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings

from ledger import contracts
from ledger.contracts import Contract, Plan, Tool, registry, transactional
from ledger.errors import InvalidRequest
from ledger.tools import checks

SAFE = {
    "owner_service": "bank",
    "operation_key": "wire:{tenant}:{account}",
    "receipt": "id",
    "consequence_level": "IRREVERSIBLE",
}


@pytest.fixture
def declare(monkeypatch):
    tools, declared_twice = {}, set()
    for module in (registry, contracts):
        monkeypatch.setattr(module, "tools", tools)
        monkeypatch.setattr(module, "declared_twice", declared_twice)

    def make(**changes) -> Tool:
        def wire(account: str) -> dict:
            return {"id": account}

        return transactional(**(SAFE | changes))(wire)

    return make


UNSAFE = {
    "E002": {"operation_key": ""},
    "E003": {"operation_key": "wire:{tenant}:{account}:{colour}"},
    "E004": {"owner_service": ""},
    "E005": {"receipt": ""},
    "E006": {"consequence_level": "COMPENSABLE"},
    "E007": {"required_approver": "NONE"},
    "E008": {"ttl": timedelta(days=9)},
    "E009": {"timeout": timedelta(0)},
    "E010": {"quorum": 0},
    "E011": {"web_only": True, "required_approver": "SUPERVISOR"},
    "E026": {"strength": "passkey", "required_approver": "SUPERVISOR"},
    "E012": {"remind": timedelta(days=1)},
    "E014": {"retention": timedelta(hours=1)},
    "E015": {"subject": "colour"},
    "E021": {"floor": "NONE"},  # and it is irreversible
    "E019": {"required_policy": "ab" * 32},  # and a person signs off
    "E016": {"compensation": "Take it back."},
}


def test_a_safe_contract_is_accepted(declare):
    assert list(checks.unsafe(declare())) == []


@pytest.mark.parametrize("retention", [timedelta(0), timedelta(days=-1), timedelta(days=36_501)])
def test_a_retention_that_cannot_be_meant_is_refused(declare, retention):
    assert [error.id for error in checks.unsafe(declare(retention=retention))] == ["ledger.E014"]


@pytest.mark.parametrize("code", UNSAFE)
def test_an_unsafe_contract_is_refused_with_a_hint(declare, code):
    errors = list(checks.unsafe(declare(**UNSAFE[code])))

    assert [error.id for error in errors] == [f"ledger.{code}"]
    assert errors[0].hint


def test_the_sentence_of_a_compensation_names_arguments_and_money_alone(declare):
    for template, expected in (("{money} to {account}", []), ("{colour}", ["ledger.E017"])):
        tool = declare(compensation=template)
        tool.compensate(lambda receipt: receipt)

        assert [error.id for error in checks.unsafe(tool)] == expected


def test_the_sentence_of_a_compensation_is_filled_in_or_not_said_at_all():
    contract = Contract(compensation="Charge {customer} {money} again.")

    assert contract.compensation_of({"customer": "Ana"}, "€5") == "Charge Ana €5 again."
    assert contract.compensation_of({"customer": "Ana"}, "") == ""
    assert contract.compensation_of({"customer": None}, "€5") == ""
    assert contract.compensation_of({}, "€5") == ""
    assert Contract().compensation_of({"customer": "Ana"}, "€5") == ""


def test_the_operation_key_must_name_the_tenant(declare):
    (error,) = checks.unsafe(declare(operation_key="wire:{account}"))

    assert error.id == "ledger.E002"


def test_two_tools_of_one_name_are_refused(declare):
    declare()
    declare()

    assert [error.id for error in checks.check_contracts()] == ["ledger.E001"]


def test_the_strictest_values_are_the_default():
    names = ("risk_level", "required_approver", "consequence_level", "retry_safe")
    tool = transactional()(lambda: None)
    registry.tools.pop(tool.name)

    defaults = [getattr(tool.contract, name) for name in names]
    assert defaults == ["HIGH", "HUMAN", "IRREVERSIBLE", False]
    assert isinstance(tool.contract, Contract)


def test_a_level_that_does_not_exist_is_refused_where_it_is_declared():
    with pytest.raises(ValueError, match="SEVERE"):
        transactional(risk_level="SEVERE")


def test_every_field_of_a_contract_is_documented():
    page = (Path(settings.BASE_DIR) / "docs/tool-authors.md").read_text()

    assert [name for name in Contract.__dataclass_fields__ if f"| `{name}` |" not in page] == []


def test_every_field_but_the_internal_ones_is_published(declare):
    published = declare(ttl=timedelta(minutes=2), remind=timedelta(seconds=90)).contract.published()

    names = {name.removesuffix("_s") for name in published}
    assert set(Contract.__dataclass_fields__) - names == {"operation_key_aliases", "retry"}
    assert (published["ttl_s"], published["remind_s"], published["quorum"]) == (120.0, 90.0, 1)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(""),
        Plan("x" * 3001),
        Plan("ok", amount=1, currency="XXY"),
        Plan("ok", amount=-1, currency="EUR"),
    ],
)
def test_a_plan_that_nobody_could_be_shown_is_refused(plan):
    from decimal import Decimal

    if plan.amount is not None:
        plan = Plan(plan.summary, amount=Decimal(plan.amount), currency=plan.currency)
    with pytest.raises(InvalidRequest):
        plan.checked()
