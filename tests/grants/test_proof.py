"""Nobody who writes to the tables invents a grant, a charge or a total: both verifiers notice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from examples import verify as second
from ledger import execution, states
from ledger.events import four_eyes
from ledger.models import Budget, Event, Grant, Tenant, Transaction
from ledger.principals import WORKER, Principal, Surface
from ledger.proof.audit import decision_records, totals, verification
from ledger.proof.audit.verification import Broken
from ledger.proof.log import checkpoints
from ledger.sign_off import grants, groups
from ledger.sign_off.rules import charges_for, facts_of
from ledger.states import Outcome
from ledger.transactions import coordinator
from ledger.transactions.decisions import decide
from ledger.transactions.transitions import advance
from ledger.workers import sweeper
from tests.conftest import propose
from tests.forgery import forge, reseal
from tests.grants.conftest import HELPDESK, TEN_TIMES, wanted
from tests.ledger.test_log_witness import LOG
from tests.rules.test_proof import faults_of_both

pytestmark = pytest.mark.django_db
A_HUNDRED_A_DAY = {"most": "100 EUR", "per": "day"}
LARGE = {"amount": {"at_most": "90 EUR"}}
RULES = (
    {
        "when": {"tool": "refund", "amount": {"below": "50 EUR"}},
        "then": {"verdict": "pass", "budgets": [A_HUNDRED_A_DAY, {"most": "9", "per": "month"}]},
    },
    {
        "when": {"amount": {"at_least": "500 EUR"}},
        "then": {"verdict": "ask", "seats": {"finance": 2}, "note": True},
    },
)


@dataclass
class Made:
    """Proposals that a rule let pass, and others that were signed in advance."""

    passed: Transaction
    undone: Transaction
    late: Transaction
    full: Transaction
    again: Transaction
    signed: Transaction
    broken: Transaction
    grant: Grant
    ended: Grant
    glass: Grant

    def vote(self, name: str = "signed") -> Event:
        return Event.objects.filter(subject=getattr(self, name).pk, via="grant").earliest("id")


@pytest.fixture
def made(activated, a_transaction, allowed, alice, olga, otto) -> Made:
    groups.make("acme", "finance", by=olga, via="web")
    activated(*RULES)
    names = {"passed": "40", "undone": "30", "late": "20", "full": "25"}
    rows = {name: refund(a_transaction, name, amount) for name, amount in names.items()}
    execution.commit(rows["passed"].pk)
    coordinator.resolve(
        rows["undone"].pk, outcome=Outcome.WITHDRAW, by=olga, via="web", reason="A mistake."
    )
    execution.roll_back(rows["undone"].pk)
    for move in (states.CLAIM, states.FAIL, states.SETTLE):
        advance(rows["late"].pk, move, by=WORKER, via="system")
    rows["again"] = refund(a_transaction, "again", "45")
    advance(rows["late"].pk, states.LATE_RECEIPT, by=WORKER, via="system", late_receipt="rc_1")
    ended = allowed(when=LARGE)
    grants.end(ended.pk, by=alice, via="web")
    grant = allowed(when=LARGE, why="As agreed.")
    rows["signed"] = refund(a_transaction, "signed", "55")
    execution.commit(rows["signed"].pk)
    in_need = {"tool": "", "when": {}, "budgets": [TEN_TIMES], "why": "The bank is down."}
    request = grants.ask_break_glass(wanted(**in_need), by=olga, via="web")
    four_eyes.confirm(request, seen=request.sha256, by=otto, via="web")
    rows["broken"] = refund(a_transaction, "broken", "900")
    ended.refresh_from_db()
    glass = Grant.objects.get(is_break_glass=True)
    return Made(**rows, grant=grant, ended=ended, glass=glass)


def refund(propose: Callable[..., Transaction], order: str, amount: str) -> Transaction:
    return propose("refund", order=order, amount=amount)


def test_an_untouched_ledger_is_whole_to_both(made, a_transaction):
    """The late receipt goes beyond the limit, and so nothing passes after it."""
    assert Budget.objects.get(owner__startswith="rule", measure="EUR").used == Decimal(105)
    assert refund(a_transaction, "one more", "1").terms["full"] == made.full.terms["full"] == [1]
    assert (made.again.state, made.broken.state) == ("approved", "approved")

    assert faults_of_both() == ([], [])


def test_the_records_of_what_was_signed_in_advance_prove_themselves(made):
    checkpoints.make()

    for row in (made.passed, made.late, made.signed, made.broken):
        row.refresh_from_db()
        record = json.loads(decision_records.as_file(decision_records.of_transaction(row)))
        assert list(second.record_faults(record, [second.Key(str(LOG))], [])) == []


def test_what_waits_keeps_its_charges_when_rules_change(made, activated):
    activated(*RULES, {"when": {"tool": "launch"}, "then": "deny"})
    sweeper.renew_terms()
    made.again.refresh_from_db()
    assert (made.again.terms["set"], "charges" in made.again.terms) == (2, True)
    execution.commit(made.again.pk)

    assert faults_of_both() == ([], [])


def test_a_day_is_one_of_the_zone_that_was_sealed(activated, a_transaction):
    activated(RULES[0])
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):  # whose days are never the same
        Tenant.objects.filter(pk="acme").update(time_zone=zone)
        refund(a_transaction, zone, "49")

    assert Budget.objects.filter(measure="EUR").count() == 2
    assert faults_of_both() == ([], [])


def test_totals_are_as_whole_from_files(made, monkeypatch):
    monkeypatch.setattr(totals, "AT_HAND", 1)

    assert faults_of_both() == ([], [])


def test_a_proof_since_another_reads_the_budgets_that_were_touched_wholly(made, a_transaction):
    checkpoints.make()
    reached = verification.verify().reached
    refund(a_transaction, "signed too", "60")
    checkpoints.make()
    assert verification.verify(since=reached).reached

    Budget.objects.filter(owner=f"grant:{made.grant.pk}", measure="EUR").update(used=60)
    with pytest.raises(Broken, match="used is not what events charged"):
        verification.verify(since=reached)


# --- tampering ------------------------------------------------------------------------------------


def rewrite(event: Event, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the details of an event, and make its chain whole again."""
    says = json.loads(event.details)
    change(says)
    forge("UPDATE ledger_event SET details = %s WHERE id = %s", second.canonical(says), event.pk)
    reseal(event.subject)


def of_vote(name: str = "signed", **changed: Any) -> Callable[[Made], str]:
    """These members of the event of a vote; ``None`` leaves one out."""

    def tamper(made: Made) -> str:
        def change(says: dict[str, Any]) -> None:
            for member, value in changed.items():
                says.pop(member, None)
                says.update({} if value is None else {member: value})

        rewrite(made.vote(name), change)
        return f"event {made.vote(name).pk}"

    return tamper


def of_charge(**changed: str) -> Callable[[Made], str]:
    """These members of the first charge of the terms of what passed."""

    def tamper(made: Made) -> str:
        return in_terms(made, lambda terms: terms["charges"][0].update(changed))

    return tamper


def in_terms(made: Made, change: Callable[[dict[str, Any]], object]) -> str:
    row = made.passed
    terms = dict(row.terms)
    change(terms)
    text = second.canonical(terms)
    first = Event.objects.get(subject=row.pk, seq=1)
    rewrite(first, lambda says: says["sets"].update(terms=text))
    forge("UPDATE ledger_transaction SET terms = %s WHERE id = %s", text, row.pk)
    return str(row.pk)


def no_charges(made: Made) -> str:
    return in_terms(made, lambda terms: terms.pop("charges"))


def of_grant(name: str = "grant", is_sealed: bool = False, **columns: Any) -> Callable[[Made], str]:
    """These columns of a grant's row; of its event as well."""

    def tamper(made: Made) -> str:
        grant = getattr(made, name)
        for column, value in columns.items():
            text = json.dumps(value) if isinstance(value, dict | list) else value
            forge(f'UPDATE ledger_grant SET "{column}" = %s WHERE id = %s', text, grant.pk)
        if is_sealed:
            grant.refresh_from_db()
            event = Event.objects.get(kind="grant_given", details__contains=f'"grant:{grant.pk}"')
            rewrite(event, lambda says: says.update(grants.sealed_parts(grant)))
        return f"grant {grant.pk}"

    return tamper


def then_the_vote(tamper: Callable[[Made], str]) -> Callable[[Made], str]:
    """The vote, not the grant, cannot be true."""

    def changed(made: Made) -> str:
        tamper(made)
        return f"event {made.vote().pk}"

    return changed


def grant_invented(made: Made) -> str:
    """As the application's role can."""
    columns = grants.Wanted("acme", HELPDESK, "refund", {}, [TEN_TIMES], timedelta(1)).columns()
    ends_at = timezone.now() + timedelta(days=1)
    grant = Grant.objects.create(**columns, given_by="user:1", given_by_name="A", ends_at=ends_at)
    return f"grant {grant.pk}"


def grant_deleted(made: Made) -> str:
    forge("DELETE FROM ledger_grant WHERE id = %s", made.ended.pk)
    return f"grant {made.ended.pk}"


def broken_by_one(made: Made) -> str:
    forge("DELETE FROM ledger_event WHERE kind = 'break_glass_asked'")
    return f"grant {made.glass.pk}"


def signed_by(name: str, amount: str) -> Callable[[Made], str]:
    """A vote with all that its event needs, appended as the application's role can."""

    def tamper(made: Made) -> str:
        grant = getattr(made, name)
        Grant.objects.filter(pk=made.glass.pk).update(ended_at=timezone.now())
        Grant.objects.filter(pk=made.grant.pk).update(ended_at=timezone.now())
        row = refund(propose, "by hand", amount)
        limits = grants.budgets_of(grant)
        charges = charges_for(grants.owner_of(grant), limits, facts_of(row), row.created_at, "UTC")
        grants.take("acme", row.pk, charges or ())
        decide(
            row.pk,
            "approve",
            digest=row.intent_digest,
            by=Principal.parse(grant.given_by, grant.given_by_name),
            via=Surface.GRANT,
            reason=grant.why,
            in_advance={"grant": grant.pk, "charges": [each.as_json() for each in charges or ()]},
        )
        return f"event {Event.objects.get(subject=row.pk, via='grant').pk}"

    return tamper


def beyond_the_limit(made: Made) -> str:
    """The column is lowered, as the application's role can, and more passes than may."""
    budgets = Budget.objects.filter(owner__startswith="rule:", measure="EUR")
    used = budgets.get().used
    budgets.update(used=0)
    row = refund(propose, "beyond", "49")
    budgets.update(used=used + 49)
    return f"event {Event.objects.get(subject=row.pk, seq=1).pk}"


def in_table(sql: str, named: str) -> Callable[[Made], str]:
    def tamper(made: Made) -> str:
        forge(sql)
        return str(made.passed.pk) if named == "passed" else named

    return tamper


def limit_of_rules(made: Made) -> str:
    def change(says: dict[str, Any]) -> None:
        says["rules"][0]["then"]["budgets"][0]["most"] = "900 EUR"

    rewrite(Event.objects.get(kind="rules_activated"), change)
    return str(made.passed.pk)


def second_vote(made: Made) -> str:
    event = Event.objects.filter(subject=made.broken.pk, via="grant").latest("id")
    charges = json.loads(made.vote("broken").details)["charges"]
    rewrite(event, lambda says: says.update(charges=charges))
    return f"event {event.pk}"


A_CHARGE = {
    "owner": "grant:0",
    "measure": "times",
    "per": "total",
    "period": "",
    "zone": "UTC",
    "amount": "1",
    "most": "10",
}
TAMPERINGS: dict[str, Callable[[Made], str]] = {
    "the limit of a rule": limit_of_rules,
    "the amount of a charge": of_charge(amount="1"),
    "the limit of a charge": of_charge(most="900"),
    "the period of a charge": of_charge(period="2020-01-01"),
    "the zone of a charge": of_charge(zone="Europe/Nowhere"),
    "terms without charges": no_charges,
    "a charge in the table": in_table("UPDATE ledger_charge SET amount = 1", "passed"),
    "a charge that is gone": in_table("DELETE FROM ledger_charge", "passed"),
    "a charge that is released": in_table("UPDATE ledger_charge SET released_at = now()", "passed"),
    "a total": in_table("UPDATE ledger_budget SET used = used - 1", "budget"),
    "a total that is gone": in_table(
        "DELETE FROM ledger_charge; DELETE FROM ledger_budget", "budget"
    ),
    "a total that is invented": in_table(
        "INSERT INTO ledger_budget (tenant, owner, measure, period, used) "
        "VALUES ('acme', 'grant:0', 'times', '', 1)",
        "budget",
    ),
    "beyond the limit": beyond_the_limit,
    "a widened grant": of_grant(when={}),
    "a raised grant": of_grant(budgets=[{"most": "9000 EUR", "per": "total"}]),
    "a prolonged grant": of_grant(ends_at=timezone.now() + timedelta(days=9)),
    "another signer": of_grant(given_by="user:0"),
    "warnings that nobody was shown": of_grant(warnings=["0" * 64]),
    "a grant that was typed": of_grant(typed=True),
    "a grant that lives again": of_grant("ended", ended_at=None),
    "a grant that is too long": of_grant(
        is_sealed=True, ends_at=timezone.now() + timedelta(days=31)
    ),
    "break-glass that is too long": of_grant(
        "glass", is_sealed=True, ends_at=timezone.now() + timedelta(hours=9)
    ),
    "another first operator": of_grant("glass", is_sealed=True, given_by="user:0"),
    "another second operator": of_grant("glass", is_sealed=True, confirmed_by="user:0"),
    "one operator": broken_by_one,
    "a grant that is invented": grant_invented,
    "a grant that is gone": grant_deleted,
    "a vote of a grant that covers less": then_the_vote(
        of_grant(is_sealed=True, when={"amount": {"at_most": "50 EUR"}})
    ),
    "a vote of a grant about another tool": then_the_vote(of_grant(is_sealed=True, tool="pay")),
    "a vote of a grant that was over": then_the_vote(
        of_grant(is_sealed=True, ends_at=timezone.now() - timedelta(days=1))
    ),
    "a vote of an ended grant": signed_by("ended", "60"),
    "a vote of a grant that does not cover it": signed_by("grant", "95"),
    "a vote without its grant": of_vote(grant=None),
    "a vote of no grant": of_vote(grant=0),
    "a vote without charges": of_vote(charges=[]),
    "a vote with another charge": of_vote(charges=[A_CHARGE]),
    "a vote that was typed": of_vote(typed=True),
    "a vote by break-glass": of_vote(break_glass=True),
    "a vote that was not by break-glass": of_vote("broken", break_glass=None),
    "a charge by the second vote": second_vote,
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_both_verifiers_notice(made, tamper):
    named = tamper(made)

    ours, theirs = faults_of_both()

    assert any(named in fault for fault in ours), ours
    assert any(named in fault for fault in theirs), theirs


def test_a_worker_does_not_begin_what_took_nothing_of_its_budget(activated, a_transaction):
    activated(*RULES)
    row = refund(a_transaction, "passed", "40")
    terms = {name: value for name, value in row.terms.items() if name != "charges"}
    text = second.canonical(terms)
    first = Event.objects.get(subject=row.pk, seq=1)
    rewrite(first, lambda says: says["sets"].update(terms=text))
    forge("UPDATE ledger_transaction SET terms = %s WHERE id = %s", text, row.pk)

    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, "not those of the rules that let it pass" in row.error) == (
        "rolling_back",
        True,
    )
