"""A changed operation key does not open again what is done already."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from django.core.checks import run_checks

from ledger import contracts, execution
from ledger.proof import retention
from ledger.tools.checks import unsafe
from tests.forgery import end_retention

pytestmark = pytest.mark.django_db
OLD = "pay:{tenant}:{reference}"
PROPOSAL = {"arguments": {"reference": "order-1", "amount": "1.00"}}


@pytest.fixture
def rewrite(monkeypatch):
    def to(**changes) -> None:
        tool = contracts.tools["pay"]
        monkeypatch.setattr(tool, "contract", replace(tool.contract, **changes))

    return to


def failed_checks() -> list[str]:
    return [error.id for error in run_checks(databases=["default"]) if error.obj == "pay"]


def test_a_changed_key_fails_the_check_until_the_old_one_is_an_alias(a_payment, rewrite):
    a_payment()
    assert failed_checks() == []

    rewrite(operation_key="payment:{tenant}:{reference}")
    assert failed_checks() == ["ledger.E013"]
    rewrite(operation_key_aliases={OLD: date(2001, 1, 1)})
    assert failed_checks() == ["ledger.E013"]
    rewrite(operation_key_aliases={OLD: date(2999, 1, 1)})
    assert failed_checks() == []


def erase(*rows) -> None:
    for row in rows:
        execution.commit(row.pk)
        end_retention(row.pk)
    retention.erase_due()


def test_a_changed_key_is_still_found_when_the_newest_content_is_erased(approved, rewrite):
    approved(reference="order-1")
    erase(approved(reference="order-2"))

    rewrite(operation_key="payment:{tenant}:{reference}")

    assert failed_checks() == ["ledger.E013"]


def test_erased_arguments_raise_no_false_alarm_where_all_have_defaults(
    approved, rewrite, monkeypatch
):
    class AllDefaults(contracts.tools["pay"].arguments_model):
        reference: str = "usual"
        amount: str = "1.00"

    erase(approved(reference="order-1"))
    monkeypatch.setattr(contracts.tools["pay"], "arguments_model", AllDefaults)

    assert failed_checks() == []


def test_what_was_done_under_the_old_key_is_found_under_the_new_one(
    as_helpdesk, approved, rewrite, the_world
):
    row = approved(**PROPOSAL["arguments"])
    execution.commit(row.pk)
    rewrite(
        operation_key="payment:{tenant}:{reference}",
        operation_key_aliases={OLD: date(2999, 1, 1)},
    )

    again = as_helpdesk.propose(**PROPOSAL)

    assert (again.status_code, again.json()["duplicate_of"]) == (200, str(row.pk))
    assert the_world.plans == 1


def test_an_alias_names_arguments_too(rewrite):
    rewrite(operation_key_aliases={"pay:{tenant}:{nothing}": date(2999, 1, 1)})

    assert [error.id for error in unsafe(contracts.tools["pay"])] == ["ledger.E003"]


def test_another_agents_duplicate_learns_only_that_the_operation_is_taken(
    as_helpdesk, supervisor, agent_client
):
    first = as_helpdesk.propose(**PROPOSAL).json()
    other = agent_client(supervisor)

    answer = other.propose(**PROPOSAL)

    assert (answer.status_code, answer.json()["code"]) == (409, "operation_taken")
    assert first["transaction_id"] not in answer.content.decode()
    assert other.get(f"/transactions/{first['transaction_id']}").status_code == 404
