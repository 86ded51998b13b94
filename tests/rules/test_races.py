"""Rules, votes, claims and proposals at once: nothing is carried out that was not signed off."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger import execution
from ledger.errors import LedgerError
from ledger.events import four_eyes
from ledger.models import RuleSet, RuleSetState, Tenant, Transaction
from ledger.proof.audit import verification
from ledger.sign_off import rules
from ledger.sign_off.rules import sets
from ledger.states import State
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.conftest import propose
from tests.rules.conftest import LARGE_TAKE_TWO, SMALL_PASS

ROUNDS = 12
SETS = (
    [SMALL_PASS],
    [SMALL_PASS, LARGE_TAKE_TWO],
    [],
    [{"when": {"tool": "refund"}, "then": "ask"}],
)


def in_threads(*works: Any) -> None:
    """All at once, each with a connection of its own; raises what one of them raised."""

    def run(work: Any) -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(run, work) for work in works]:
            future.result(timeout=60)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_rules_that_change_under_a_storm(acme, olga, otto, alice, bob, helpdesk, the_world):
    dice = random.Random(7)
    numbers = itertools.count()

    def change() -> None:
        for written in itertools.islice(itertools.cycle(SETS), ROUNDS):
            draft = sets.edit("acme", written, seen="", by=olga)
            waiting = rules.activate("acme", seen=draft.sha256, by=olga, via="web")
            if waiting is not None:
                four_eyes.confirm(waiting, seen=waiting.sha256, by=otto, via="web")

    def ask() -> None:
        for _ in range(3 * ROUNDS):
            amount = dice.choice(["12", "60", "1500"])
            with suppress(LedgerError):
                propose("refund", order=f"o{next(numbers)}", amount=amount)

    def decide() -> None:
        for _ in range(3 * ROUNDS):
            for row in Transaction.objects.filter(state=State.PREPARED).order_by("?")[:4]:
                for by in dice.sample([alice, bob], 2):
                    with suppress(LedgerError):
                        coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")

    def carry_out() -> None:
        for _ in range(6 * ROUNDS):
            for row in Transaction.objects.filter(state=State.APPROVED).order_by("?")[:4]:
                execution.commit(row.pk)

    def sweep() -> None:
        for _ in range(4 * ROUNDS):
            sweeper.renew_terms()
            sweeper.sign_off_by_policy()

    in_threads(change, ask, ask, decide, decide, carry_out, carry_out, sweep)

    verification.verify()
    committed = Transaction.objects.filter(state=State.COMMITTED)
    assert committed.count() == len(the_world.receipts) > ROUNDS
    assert set(the_world.effects.values()) == {1}
    assert not Transaction.objects.filter(state=State.ROLLING_BACK).exists()
    assert RuleSet.objects.filter(state=RuleSetState.ACTIVE).count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_activations_one_counts(acme, olga, otto):
    draft = sets.edit("acme", [LARGE_TAKE_TWO], seen="", by=olga)
    refused = []

    def activate(by: Any) -> Any:
        def work() -> None:
            try:
                rules.activate("acme", seen=draft.sha256, by=by, via="web")
            except LedgerError as refusal:
                refused.append(refusal)

        return work

    in_threads(activate(olga), activate(otto))

    assert [type(refusal).__name__ for refusal in refused] == ["NotPossible"]
    assert Tenant.objects.get(pk="acme").rule_set == draft.number
    verification.verify()


@pytest.mark.django_db
def test_rules_cost_a_proposal_no_query(activated, a_transaction):
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            a_transaction("refund", order=f"o{next(orders)}", amount="60")
        return len(captured)

    orders = itertools.count()
    queries()
    without = queries()
    activated(*[{"when": {"arguments.country": f"C{n}"}, "then": "ask"} for n in range(50)])
    queries()  # reads the rules once

    assert queries() == without
