"""Totals under kill -9: 64 agents race for the last 50 EUR of a rule and of a grant, many times.

Each storm has budgets of its own. Processes die at any moment, grants end in the middle, what is
signed off is carried out, fails or is withdrawn. Afterwards the sums are compared: those that the
budgets say were used, those of what is charged, and what the tool has paid.

    python -m bench.totals 100
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

from bench.engines import engines
from bench.http_load import Figures

PROCESSES, THREADS = 8, 8
TOTAL = 50
AT_ONCE = 4  # in each process, as a web process has a pool of sessions
STORM_S = 0.8
TENANT = "bench"


def measure(number: int = 100) -> Figures:
    """So many storms; raises ``AssertionError`` for a total that was exceeded or forgotten."""
    from ledger.principals import Surface
    from ledger.sign_off import grants

    dice = random.Random(28)
    figures: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PAID"] = str(Path(folder, "paid"))
        people = _people()
        for storm in range(number):
            _allow(storm, *people)
            grant = _grant(storm, people[0])
            figures["killed"] += _storm(storm, grant, people[1], dice)
            os.waitpid(_in_a_child(_carry_out_the_rest), 0)
            for name, value in _checked(storm, grant).items():
                figures[name] += value
            grants.end(grant, by=people[1], via=Surface.WEB)
            print(f"storm {storm + 1}: {dict(figures)}", file=sys.stderr, flush=True)
    _verify()
    return dict(figures, storms=float(number))


def _people() -> tuple[object, object]:
    from django.contrib.auth.models import User

    from approvals.models import Role
    from approvals.people import accounts, principal_of
    from ledger.models import Agent, Tenant
    from ledger.principals import Surface, system

    tenant, _ = Tenant.objects.get_or_create(
        slug=TENANT, defaults={"name": "Bench", "tools": ["*"], "undo_seconds": 0}
    )
    for number in range(PROCESSES * THREADS):
        name = f"agent-{number}"
        Agent.objects.get_or_create(tenant=tenant, slug=name, defaults={"name": name})
    Agent.objects.get_or_create(tenant=tenant, slug="granted", defaults={"name": "granted"})
    by = {"by": system("bench", "Bench"), "via": Surface.COMMAND}
    made = []
    for name, role in (("ann", Role.APPROVER), ("ole", Role.OPERATOR)):
        person, is_new = User.objects.get_or_create(username=name)
        if is_new:
            accounts.opened(person, **by)
        accounts.give_role(person, TENANT, role, **by)
        made.append(principal_of(person))
    return made[0], made[1]


def _allow(storm: int, *people: object) -> None:
    """A rule lets pass what one storm's agents propose, up to its total."""
    from ledger.principals import Surface, system
    from ledger.sign_off import rules

    passes = {"verdict": "pass", "budgets": [{"most": f"{TOTAL} EUR", "per": "total"}]}
    agents = [f"agent-{number}" for number in range(PROCESSES * THREADS)]
    above = {"amount": {"at_most": f"{1000 + storm} EUR"}}  # so that its budget is a new one
    by = system("bench", "Bench")
    written = [{"when": {"tool": "refunded", "agent": agents, **above}, "then": passes}]
    draft = rules.edit(TENANT, written, seen="", by=by)
    rules.activate(TENANT, seen=draft.sha256, by=by, via=Surface.COMMAND)


def _grant(storm: int, by: object) -> int:
    from datetime import timedelta

    from ledger.principals import Surface
    from ledger.sign_off import grants

    wanted = grants.Wanted(
        tenant=TENANT,
        agent=f"agent:{TENANT}/granted",
        tool="refunded",
        when={"amount": {"at_most": "20 EUR"}},
        budgets=[{"most": f"{TOTAL} EUR", "per": "total"}, {"most": "1000", "per": "total"}],
        lasts=timedelta(minutes=10),
    )
    return grants.give(wanted, by=by, via=Surface.WEB).pk


# --- one storm ------------------------------------------------------------------------------------


def _storm(storm: int, grant: int, operator: object, dice: random.Random) -> int:
    """How many processes were killed."""
    from django.db import connections

    from ledger.principals import Surface
    from ledger.sign_off import grants

    connections.close_all()
    children = [_process(storm, number, operator) for number in range(PROCESSES)]
    doomed = dice.sample(children, 3)
    ends = dice.random() < 0.25
    for child in doomed:
        time.sleep(dice.random() * STORM_S / 3)
        os.kill(child, signal.SIGKILL)
        if ends and child == doomed[1]:
            grants.end(grant, by=operator, via=Surface.WEB)
    for child in children:
        os.waitpid(child, 0)
    connections.close_all()
    return len(doomed)


def _process(storm: int, number: int, operator: object) -> int:
    dice, pool = random.Random(f"{storm} {number}"), threading.Semaphore(AT_ONCE)
    until = time.monotonic() + STORM_S
    agents = [
        threading.Thread(
            target=_agent,
            args=(number * THREADS + each, until, random.Random(dice.random()), operator, pool),
        )
        for each in range(THREADS)
    ]

    def run() -> None:
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.join()

    return _in_a_child(run)


def _in_a_child(run: Callable[[], None]) -> int:
    """This process begins no thread, so that each child has pools of its own."""
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(0)
    return child


def _agent(
    number: int, until: float, dice: random.Random, operator: object, pool: threading.Semaphore
) -> None:
    from django.db import connection

    from ledger import execution
    from ledger.errors import LedgerError
    from ledger.models import Transaction
    from ledger.principals import Surface, agent
    from ledger.states import Outcome, State
    from ledger.transactions import coordinator

    while time.monotonic() < until:
        name = dice.choice([f"agent-{number}", "granted"])
        with pool, closing(connection), suppress(LedgerError):
            row = _propose(agent(TENANT, name, name), dice.randint(5, 20))
            if row.state != State.APPROVED or dice.random() < 0.3:
                continue
            if dice.random() < 0.3:
                told = {"by": operator, "via": Surface.WEB, "reason": "storm"}
                coordinator.resolve(row.pk, outcome=Outcome.WITHDRAW, **told)
            else:
                execution.commit(row.pk)
            for left in Transaction.objects.filter(pk=row.pk, state=State.ROLLING_BACK):
                execution.roll_back(left.pk)


def _propose(by: object, amount: int):
    from ledger.api import render_token
    from ledger.models import Transaction
    from ledger.principals import Surface
    from ledger.transactions.coordinator import Proposal, prepare

    name = uuid4().hex
    answer = prepare(
        Proposal("refunded", {"name": name, "amount": amount}),
        by=by,
        tenant=TENANT,
        key=name,
        via=Surface.REST,
        render=render_token,
    )
    return Transaction.objects.get(pk=answer.transaction_id)


def _carry_out_the_rest() -> None:
    from ledger import execution
    from ledger.models import Transaction
    from ledger.states import State

    for row in Transaction.objects.filter(state=State.APPROVED):
        execution.commit(row.pk)
    for row in Transaction.objects.filter(state=State.ROLLING_BACK):
        execution.roll_back(row.pk)


# --- afterwards -----------------------------------------------------------------------------------


def _checked(storm: int, grant: int) -> dict[str, float]:
    from ledger.models import Budget, Decision, Transaction
    from ledger.sign_off import rules

    rule = rules.read(1, rules.active(TENANT).rules).rules[0]
    paid: dict[str, Decimal] = {
        name: Decimal(amount)
        for name, amount in map(str.split, Path(os.environ["PAID"]).read_text().splitlines())
    }
    signed = set(Decision.objects.filter(grant=grant).values_list("transaction_id", flat=True))
    passed = {
        row.pk
        for row in Transaction.objects.filter(terms__set=rules.active_number(TENANT))
        if (row.terms.get("charges") or [{}])[0].get("owner") == rule.budget_owner
    }
    figures: dict[str, float] = {}
    for owner, rows in ((f"grant:{grant}", signed), (rule.budget_owner, passed)):
        budget = Budget.objects.filter(tenant=TENANT, owner=owner, measure="EUR").first()
        charges = list(budget.charges.select_related("transaction")) if budget else []
        held = sum((each.amount for each in charges if each.released_at is None), Decimal())
        done = sum(paid.get(each.transaction.arguments["name"], 0) for each in charges)
        used = budget.used if budget else Decimal()
        kind = owner.partition(":")[0]
        assert used == held <= TOTAL, f"storm {storm}: {owner} has {used} used, {held} charged"
        assert done <= held, f"storm {storm}: {done} paid of {held} charged by {owner}"
        assert rows == {each.transaction_id for each in charges}, f"storm {storm}: {owner}"
        figures |= {f"{kind}: EUR used": float(used), f"{kind}: charges": float(len(charges))}
    return figures


def _verify() -> None:
    from ledger.proof.audit import verification

    verification.verify()


def main() -> None:
    with engines():
        for name, value in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100).items():
            print(f"{name:<24} {value:10.2f}")


if __name__ == "__main__":
    main()
