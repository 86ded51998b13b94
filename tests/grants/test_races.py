"""Totals and grants, raced for: no sum is exceeded, and an end comes before or after a use."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from ledger import execution
from ledger.errors import LedgerError
from ledger.models import Budget, Charge, Decision, Grant, Transaction
from ledger.proof.audit import verification
from ledger.sign_off import grants
from ledger.states import Outcome, State
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.grants.conftest import of
from tests.grants.test_budgets import small
from tests.rules.test_races import in_threads

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
AGENTS = 4  # no more of one agent plan at once
EACH = 12


def racing(*others):
    """All of them propose 10 EUR at the same time; returns what was signed off."""
    numbers = itertools.count()

    def ask() -> None:
        for _ in range(EACH):
            propose("refund", order=f"o{next(numbers)}", amount="10")

    in_threads(*[ask] * AGENTS, *others)
    assert Transaction.objects.count() == AGENTS * EACH
    return Transaction.objects.exclude(state=State.PREPARED)


def test_a_rule_never_lets_more_pass_than_its_budget(acme, activated):
    activated(small({"most": "100 EUR", "per": "total"}))

    assert racing().count() == 10
    assert Budget.objects.get().used == 100
    verification.verify()


def test_a_grant_never_signs_more_than_its_total(allowed):
    allowed(budgets=[of("100 EUR"), of("1000")])

    assert racing().count() == 10
    assert {budget.used for budget in Budget.objects.all()} == {100, 10}
    verification.verify()


def test_what_is_given_back_meanwhile_is_used_again_and_never_twice(acme, activated, olga):
    activated(small({"most": "100 EUR", "per": "total"}))

    def withdraw() -> None:
        for _ in range(20):
            for row in Transaction.objects.filter(state=State.APPROVED).order_by("?")[:2]:
                with suppress(LedgerError):
                    told = {"by": olga, "via": "web", "reason": "Not now."}
                    coordinator.resolve(row.pk, outcome=Outcome.WITHDRAW, **told)
                    execution.roll_back(row.pk)

    racing(withdraw, withdraw)

    held = Charge.objects.filter(released_at=None)
    assert Budget.objects.get().used == 10 * held.count() <= 100
    assert held.count() == Transaction.objects.filter(state=State.APPROVED).count()
    verification.verify()


def test_a_use_comes_before_the_end_of_a_grant_or_is_none(allowed, alice):
    grant = allowed(budgets=[of("9000 EUR"), of("1000")])

    def end() -> None:
        grants.end(grant.pk, by=alice, via="web")

    racing(end)

    ended_at = Grant.objects.get().ended_at
    assert not Decision.objects.filter(grant=grant, at__gt=ended_at).exists()
    verification.verify()
