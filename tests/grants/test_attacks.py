"""Attacks on grants and budgets: none gives more than was signed, and none is a false alarm."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from django.utils import timezone

from approvals.models import Membership, Role
from approvals.web.item.allow import AllowForm
from ledger import execution
from ledger.errors import InvalidRequest, NotPossible
from ledger.events import four_eyes
from ledger.models import Agent, Budget, Charge, Grant, Tenant, new_id
from ledger.principals import Principal
from ledger.proof.audit import verification
from ledger.sign_off import grants, rules
from ledger.sign_off.rules import RulesRefused, charge_from, loosened, read, sets
from ledger.states import Outcome, State
from ledger.transactions import coordinator
from tests.approvals.test_organisation_page import ADDRESS, form_of as page_form
from tests.conftest import propose
from tests.grants.conftest import TEN_TIMES, of, wanted
from tests.grants.test_allow_pages import address, form_of
from tests.grants.test_budgets import small
from tests.http_tools.conftest import registered, service
from tests.http_tools.test_transactions import PLAN
from tests.processes import until
from tests.rules.test_races import in_threads

__all__ = ["registered", "service"]
pytestmark = pytest.mark.django_db

A_HUNDRED = {"most": "100 EUR", "per": "day"}


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def faults_of_ledger() -> list[str]:
    """The roles of these tests have no events, so only some of what it says counts."""
    try:
        verification.verify()
    except verification.Broken as broken:
        return [str(broken)]
    return []


TWO_SIGN = {"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}}


HARMLESS = {"risk_level": "MEDIUM", "consequence_level": "COMPENSABLE"}


def test_two_grants_of_one_person_are_charged_for_one_vote(allowed, activated):
    activated(TWO_SIGN)
    first, second = allowed(), allowed()

    row = propose("refund", order="o-1", amount="40")

    assert [vote.grant_id for vote in row.decisions.all()] == [first.pk]
    charged = {charge.budget.owner for charge in Charge.objects.select_related("budget")}
    assert charged == {f"grant:{first.pk}"}, f"grant {second.pk} signed nothing"


def test_an_honest_ledger_with_two_grants_of_one_person_verifies(allowed, activated):
    activated(TWO_SIGN)
    allowed(), allowed()
    propose("refund", order="o-1", amount="40")

    verification.verify()


def test_a_manager_who_also_breaks_the_glass_forges_nothing(
    allowed, activated, olga, otto, olga_user
):
    activated(TWO_SIGN)
    Membership.objects.create(user=olga_user, tenant_id="acme", role=Role.APPROVER)
    allowed(by=olga)
    emergency = {"when": {}, "budgets": [TEN_TIMES], "why": "The bank is down."}
    request = grants.ask_break_glass(wanted(**emergency), by=olga, via="web")
    four_eyes.confirm(request, seen=request.sha256, by=otto, via="web")

    assert propose("refund", order="o-1", amount="40").state == State.APPROVED

    assert "charges" not in "; ".join(faults_of_ledger())


def test_what_two_grants_of_one_person_cover_is_carried_out(allowed, activated, bob):
    activated(TWO_SIGN)
    allowed(), allowed()
    row = propose("refund", order="o-1", amount="40")
    coordinator.approve(row.pk, digest=row.intent_digest, by=bob, via="web")

    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.state == State.COMMITTED


def test_one_operator_does_not_take_away_a_budget_beside_a_wider_rule(activated, olga):
    wide = {"when": {"tool": "refund"}, "then": "pass"}
    activated(wide, small(A_HUNDRED))
    rows = [propose("refund", order=f"o-{n}", amount="45") for n in range(3)]
    assert [row.state for row in rows] == [State.APPROVED, State.APPROVED, State.PREPARED]

    draft = sets.edit("acme", [wide], seen="", by=olga)
    waiting = rules.activate("acme", seen=draft.sha256, by=olga, via="web")

    assert waiting is not None  # it lets more pass: without limit
    assert propose("refund", order="o-9", amount="45").state == State.PREPARED


@pytest.mark.parametrize(
    "after",
    [
        [small(A_HUNDRED)],  # the tighter budget of less is gone
        [small({"most": "45 EUR", "per": "month"}, below="10 EUR"), small(A_HUNDRED)],
    ],
)
def test_a_budget_that_no_rule_has_any_more_loosens(after):
    tight = small({"most": "45 EUR", "per": "month"}, below="20 EUR")

    assert loosened(read(1, [tight, small(A_HUNDRED)]).rules, read(2, after).rules)


def test_a_form_that_is_sent_twice_gives_one_grant(as_alice, a_transaction):
    row = a_transaction("refund", order="o-1", amount="50")
    form = form_of(as_alice, row)

    for _ in range(3):
        as_alice.post(address(row), form)

    assert Grant.objects.count() == 1, "each gives the whole total again"


def test_a_form_that_is_sent_again_checks_again_who_may_sign(as_alice, a_transaction, helpdesk):
    """``may_allow`` is left out where the form has an approval that was given before."""
    row = a_transaction("refund", order="o-1", amount="50")
    form = form_of(as_alice, row)
    as_alice.post(address(row), form)
    Agent.objects.filter(pk=helpdesk.pk).update(kept_by=row.decisions.get().principal)

    as_alice.post(address(row), form)

    assert Grant.objects.count() == 1


def test_an_argument_that_equals_the_amount_is_not_free(as_alice, a_transaction):
    row = a_transaction("refund", order="o-1", amount="50", country="50")
    form = form_of(as_alice, row)
    assert as_alice.post(address(row), form).status_code == 302

    assert propose("refund", order="o-2", amount="49", country="FR").state == State.PREPARED


def test_an_argument_that_equals_the_amount_can_be_fixed_all_the_same(as_alice, a_transaction):
    """An agent that refunds 50 EUR to account 50 leaves the account open, and nobody is told."""
    row = a_transaction("refund", order="o-1", amount="50", country="50")
    page = as_alice.get(address(row))
    form = page.context["form"]

    said = str(page.context["what"]).lower()

    assert "country" in form.fixable or "country" in said


def test_an_argument_that_the_item_did_not_have_is_asked(as_alice, service, registered):
    """No form showed it: neither as fixed nor as one that may be anything."""
    registered(contract=HARMLESS)
    service.answers["plan"] = (200, PLAN)
    first = propose("refund_invoice", invoice="7", amount=48.2)
    form = form_of(as_alice, first)
    every = [*as_alice.get(address(first)).context["form"].fixable]
    fixed = {"fixed": [name for name in every if name != "invoice"]}
    assert as_alice.post(address(first), form | fixed).status_code == 302

    row = propose("refund_invoice", invoice="8", amount=48.2, note="To IBAN XX00 instead.")

    assert row.state == State.PREPARED


def test_another_version_of_a_tool_is_asked(as_alice, service, registered):
    """What was signed in advance was described otherwise, and went to another address."""
    registered(contract=HARMLESS)
    service.answers["plan"] = (200, PLAN)
    first = propose("refund_invoice", invoice="7", amount=48.2)
    form = form_of(as_alice, first, fixed=[])
    assert as_alice.post(address(first), form).status_code == 302
    registered(description="Pays whoever sent the invoice.", contract=HARMLESS)

    row = propose("refund_invoice", invoice="8", amount=48.2)

    assert row.tool_version != first.tool_version
    assert row.state == State.PREPARED


def test_another_time_zone_gives_no_second_day_within_a_month(activated, as_olga):
    activated(small(A_HUNDRED))
    propose("refund", order="o-1", amount="49")
    zones = ("Pacific/Kiritimati", "Pacific/Pago_Pago")

    answers = [as_olga.post(ADDRESS, page_form(as_olga, time_zone=zone)) for zone in zones]

    assert [answer.status_code for answer in answers] == [302, 422]
    assert "no day of a budget begins twice" in answers[1].content.decode()
    assert Tenant.objects.get(pk="acme").time_zone == "Pacific/Kiritimati"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("owner", ["rule", "grant"])
def test_while_a_process_that_hangs_holds_a_budget_people_are_asked(
    acme, activated, allowed, owner
):
    if owner == "rule":
        activated(small(A_HUNDRED))
    else:
        allowed()
    propose("refund", order="o-1", amount="10")
    held, free = threading.Event(), threading.Event()

    def hang() -> None:
        with transaction.atomic():
            rows = Grant.objects.all() if owner == "grant" else Budget.objects.all()
            [*rows.select_for_update()]
            held.set()
            free.wait(20)
        connection.close()

    def ask() -> State:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '1s'")  # 3 s in a real process
            return propose("refund", order="o-2", amount="10").state
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        hanging = pool.submit(hang)
        assert held.wait(10)
        try:
            assert pool.submit(ask).result() == State.PREPARED
        finally:
            free.set()
            hanging.result()


def test_what_was_not_shown_in_full_is_not_allowed_because_another_approved_it(
    as_bob, a_transaction, alice
):
    row = a_transaction("refund", order="o-1", amount="50", country="x" * 2000)
    form = {k: v for k, v in form_of(as_bob, row).items() if k not in ("shown", "digest")}
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    as_bob.post(address(row), form)

    assert not Grant.objects.exists()


def test_break_glass_is_never_of_one_operator_alone(acme, olga, otto, otto_user):
    """Also where one seat is enough, and the other one has lost the role by another way."""
    emergency = {"when": {}, "budgets": [TEN_TIMES], "why": "The bank is down."}
    request = grants.ask_break_glass(wanted(**emergency), by=olga, via="web")
    four_eyes.confirm(request, seen=request.sha256, by=otto, via="web")
    Membership.objects.filter(user=otto_user).delete()

    assert propose("refund", order="o-1", amount="40").state == State.PREPARED


@pytest.mark.parametrize("now", [datetime(2027, 3, 27, 12, tzinfo=ZoneInfo("Europe/Berlin"))])
def test_it_ends_at_the_time_that_was_chosen_also_when_summer_begins(a_transaction, now):
    row = a_transaction("refund", order="o-1", amount="50")
    until = now + timedelta(days=1, hours=5)  # 17:00 tomorrow, in summer time
    with timezone.override("Europe/Berlin"):
        form = AllowForm(
            {
                "lasts": "at",
                "until": f"{until:%Y-%m-%dT%H:%M}",
                "each": "50",
                "in_all": "500",
                "times": "10",
                "per": "total",
            },
            row=row,
        )
        form.now = now
        assert form.is_valid(), form.errors

    ends_at = now.astimezone(ZoneInfo("UTC")) + form.wanted().lasts

    assert ends_at.astimezone(ZoneInfo("Europe/Berlin")).hour == 17


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_giving_back_and_taking_two_budgets_do_not_deadlock(acme, activated, olga):
    """``take`` goes by their names; the trigger as the planner joins, here by their ids."""
    count, money = {"most": "9000", "per": "total"}, {"most": "90000 EUR", "per": "total"}
    activated(small(count))
    propose("refund", order="first", amount="10")
    activated(
        small(count, {"most": "9000", "per": "day"}, money)
    )  # "EUR" is before "times", and its id is after it
    with connection.cursor() as cursor:  # as months of days leave it
        cursor.execute(
            "INSERT INTO ledger_budget (tenant, owner, measure, period, used)"
            " SELECT 'acme', 'grant:' || n, 'times', '', 0 FROM generate_series(1, 3000) n"
        )
    for number in range(40):
        propose("refund", order=f"first-{number}", amount="10")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ledger_budget, ledger_charge")
    row = propose("refund", order="given back", amount="10")
    told = {"by": olga, "via": "web", "reason": "Not now."}
    coordinator.resolve(row.pk, outcome=Outcome.WITHDRAW, **told)
    charges = sorted(map(charge_from, row.terms["charges"]), key=lambda each: each.budget)
    assert [each.measure for each in charges] == ["EUR", "times", "times"]
    first_taken, go_on = threading.Event(), threading.Event()

    def take() -> None:
        """As ``grants.take``, stopped between the two."""
        try:
            with transaction.atomic():
                another = new_id()
                grants.take("acme", another, charges[:1])
                first_taken.set()
                go_on.wait(10)
                grants.take("acme", another, charges[1:])
                transaction.set_rollback(True)
        finally:
            connection.close()

    def give_back() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET enable_nestloop = off; SET enable_hashjoin = off")
            execution.roll_back(row.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        taking = pool.submit(take)
        assert first_taken.wait(10)
        giving = pool.submit(give_back)
        until(somebody_waits_for_a_lock)
        go_on.set()
        taking.result()  # raises DeadlockDetected, or the other one does
        giving.result()
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert cursor.fetchone() == (0,)


def test_a_huge_budget_does_not_stop_prepare(activated):
    with suppress(RulesRefused):
        activated(small({"most": "1e200000 EUR", "per": "day"}))

    propose("refund", order="o-1", amount="40")


@pytest.mark.parametrize("most", ["1e30", "1e200 EUR", "1e999999 EUR"])
def test_a_budget_without_measure_is_refused_in_words(most):
    with pytest.raises(RulesRefused):
        read(1, [small({"most": most, "per": "day"})])


def test_a_grant_with_two_budgets_of_one_kind_stops_nobody(alice, acme):
    twice = [of("500 EUR"), TEN_TIMES, of("5")]
    with suppress(InvalidRequest):
        grants.give(wanted(budgets=twice), by=alice, via="web")

    propose("refund", order="o-1", amount="40")  # raises IntegrityError


def test_an_operator_who_is_renamed_between_two_requests_forges_nothing(acme, olga, otto):
    emergency = {"when": {}, "budgets": [TEN_TIMES], "why": "The bank is down."}
    asked = []
    for tool, name in (("refund", "Olga"), ("pay", "Olga Smith")):
        by = Principal(olga.kind, olga.id, name)
        asked.append(grants.ask_break_glass(wanted(tool=tool, **emergency), by=by, via="web"))

    for request in asked:
        four_eyes.confirm(request, seen=request.sha256, by=otto, via="web")

    assert verification.verify().faults == []


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_agent_has_no_more_grants_than_it_may_have(acme, alice, monkeypatch):
    monkeypatch.setattr("ledger.sign_off.grants.grants.MOST_LIVE", 3)
    begin = threading.Barrier(8)

    def give() -> None:
        begin.wait()
        with suppress(NotPossible):
            grants.give(wanted(), by=alice, via="web")

    in_threads(*[give] * 8)

    assert Grant.objects.count() <= 3
