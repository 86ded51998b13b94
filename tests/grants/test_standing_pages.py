"""The page Standing: what was signed in advance, ended with a click, and broken glass by two."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db.models.functions import Now

from approvals.models import Membership, Role
from ledger.events import four_eyes
from ledger.models import Agent, Budget, ChangeRequest, Event, Grant
from ledger.sign_off import grants
from ledger.states import State
from tests.grants.conftest import HELPDESK, TEN_TIMES, of

pytestmark = pytest.mark.django_db
PAGE = "/standing/"
GLASS = {"agent": HELPDESK, "tool": "", "lasts": "2", "times": "3", "why": "The provider is down."}


@pytest.fixture
def refund(a_transaction):
    def make(amount):
        return a_transaction("refund", order=f"o-{amount}", amount=amount)

    return make


@pytest.fixture
def broken(acme, helpdesk, as_olga, otto):
    """Olga asks for it at the desk, and Otto confirms it."""

    def make(**changes) -> Grant:
        as_olga.post(f"{PAGE}glass/", {**GLASS, **changes})
        asked = ChangeRequest.objects.latest("pk")
        four_eyes.confirm(asked, seen=asked.sha256, by=otto, via="web")
        return Grant.objects.latest("pk")

    return make


def text_of(answer) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


# --- the list -------------------------------------------------------------------------------------


def test_a_grant_is_shown_with_its_bars_and_uses(as_bob, allowed, refund):
    allowed()
    rows = [refund(amount) for amount in ("40", "30.50")]

    answer = as_bob.get(PAGE)
    page = text_of(answer)

    assert "Refund by helpdesk, up to 10 times, at most €50.00 each, €500.00 in all" in page
    assert "€70.50 of €500" in page
    assert "2 of 10 times" in page
    assert "Signed 2, €70.50" in page
    assert all(f"/transactions/{row.pk}/" in answer.content.decode() for row in rows)


def test_a_grant_that_is_over_by_a_late_receipt_says_so(as_alice, allowed, refund):
    allowed()
    refund("40")
    Budget.objects.filter(measure="EUR").update(used=Decimal(520))
    Budget.objects.filter(measure="times").update(used=10)

    page = text_of(as_alice.get(PAGE))
    assert "€20 over: a receipt came late" in page
    assert "10 of 10 times · used up" in page


def test_only_the_first_uses_are_shown_until_all_are_asked_for(as_alice, allowed, refund):
    grant = allowed()
    rows = [refund(str(amount)) for amount in range(1, 8)]

    def shown(path: str) -> int:
        page = as_alice.get(path).content.decode()
        return sum(f"/transactions/{row.pk}/" in page for row in rows)

    assert (shown(PAGE), shown(f"{PAGE}?grant={grant.pk}")) == (5, 7)
    assert "All 7…" in text_of(as_alice.get(PAGE))


def test_many_grants_come_in_pages(as_alice, allowed, alice):
    first = allowed()
    copies = [Grant.objects.get(pk=first.pk) for _ in range(120)]
    for copy in copies:
        copy.pk = None
    Grant.objects.bulk_create(copies)

    answer = as_alice.get(PAGE)

    assert (len(answer.context["live"]), answer.context["number"]) == (100, 121)
    last = as_alice.get(f"{PAGE}?before={answer.context['next']}")
    assert last.context["live"][-1].grant.pk == first.pk
    assert f'id="grant-{copies[-1].pk}"' in answer.content.decode()


def test_the_budgets_of_rules_are_shown_with_what_is_used_today(as_alice, activated, refund):
    activated(
        {
            "when": {"tool": "refund", "amount": {"below": "50 EUR"}},
            "then": {"verdict": "pass", "budgets": [of("100 EUR", "day"), of("3", "month")]},
        }
    )
    refund("49")

    page = text_of(as_alice.get(PAGE))

    assert "€49 of €100 today" in page
    assert "1 of 3 times this month" in page


def test_an_empty_page_says_what_it_is_for(as_alice, acme):
    assert "Nothing is signed in advance." in text_of(as_alice.get(PAGE))


def test_viewers_do_not_see_it_and_others_see_their_own_organisation(
    as_vera, as_carol, allowed, globex
):
    grant = allowed()

    assert as_vera.get(PAGE).status_code == 403
    assert "helpdesk" not in text_of(as_carol.get(PAGE))
    assert not as_carol.get(f"{PAGE}?grant={grant.pk}").context["live"]
    assert as_carol.post(f"{PAGE}{grant.pk}/end").status_code == 404


# --- ending ---------------------------------------------------------------------------------------


def test_a_colleague_ends_it_and_is_told_what_it_had_signed(as_bob, bob, allowed, refund):
    grant = allowed()
    refund("40")

    page = text_of(as_bob.post(f"{PAGE}{grant.pk}/end", follow=True))

    assert "Ended. It had signed 1, €40; the last one at" in page
    assert "1 ended in the last 30 days" in page
    assert "Ended by Bob" in page
    assert Grant.objects.get().ended_by == str(bob)
    assert refund("10").state == State.PREPARED


def test_those_that_ended_say_why(as_bob, allowed, alice_user):
    allowed()
    Grant.objects.update(ends_at=Now() - timedelta(seconds=1))
    grants.end_expired()
    allowed()
    Membership.objects.filter(user=alice_user, role=Role.APPROVER).delete()
    grants.end_all_of(f"user:{alice_user.pk}")

    page = text_of(as_bob.get(PAGE))

    assert "Its time was over" in page
    assert "Who gave it may not decide any more" in page
    assert "It has signed nothing." in page


# --- breaking the glass ---------------------------------------------------------------------------


def test_an_operator_asks_and_a_second_one_confirms(as_olga, as_otto, acme, helpdesk, refund):
    page = text_of(as_olga.post(f"{PAGE}glass/", GLASS, follow=True))
    assert "Asked. It counts once a second operator confirms it." in page
    assert refund("10").state == State.PREPARED

    asked = ChangeRequest.objects.get()
    page = text_of(as_otto.get(f"/changes/{asked.pk}/"))
    assert (
        "asks to break the glass for 2 hours: everything by Helpdesk agent, up to 3 times." in page
    )
    assert "says why: The provider is down." in page
    assert "Two operators sign in place of every group" in page
    assert "asks to break the glass" in text_of(as_otto.get("/"))
    as_otto.post(f"/changes/{asked.pk}/confirm", {"seen": asked.sha256})

    grant = Grant.objects.get()
    assert (grant.is_break_glass, grant.budgets) == (True, [TEN_TIMES | {"most": "3"}])
    assert refund("11").state == State.APPROVED
    history = text_of(as_olga.get("/changes/"))
    assert "asked to break the glass" in history
    assert "what: everything, by helpdesk: up to 3 times in all" in history


def test_its_amounts_are_of_one_currency(as_olga, acme, helpdesk):
    bounds = {"each": "20", "in_all": "100", "currency": "eur"}
    as_olga.post(f"{PAGE}glass/", {**GLASS, **bounds, "tool": "refund"})

    after = ChangeRequest.objects.get().after
    assert after["when"]["amount"] == {"at_most": "20 EUR"}
    assert after["budgets"] == [of("100 EUR"), of("3")]
    answer = as_olga.post(f"{PAGE}glass/", {**GLASS, **bounds, "currency": "euro"})
    assert answer.status_code == 422


@pytest.mark.parametrize("wrong", [{"why": " "}, {"lasts": "9"}, {"times": "0"}, {"agent": "x"}])
def test_what_is_missing_is_asked_for(as_olga, acme, helpdesk, wrong):
    assert as_olga.post(f"{PAGE}glass/", {**GLASS, **wrong}).status_code == 422
    assert not ChangeRequest.objects.exists()


def test_only_operators_break_it_and_only_for_their_own_agents(
    as_alice, as_olga, acme, globex, helpdesk
):
    assert as_alice.get(f"{PAGE}glass/").status_code == 403
    assert "Break the glass" not in text_of(as_alice.get(PAGE))
    Agent.objects.create(tenant=globex, slug="theirs", name="Theirs")
    theirs = {**GLASS, "agent": "agent:globex/theirs"}
    assert as_olga.post(f"{PAGE}glass/", theirs).status_code == 422


def test_every_page_says_that_the_glass_is_broken(as_alice, as_vera, as_carol, broken, globex):
    grant = broken()

    for person in (as_alice, as_vera):
        page = text_of(person.get("/history/"))
        assert "Glass broken by Olga" in page
        assert "The provider is down." in page
    assert "Glass broken" not in text_of(as_carol.get("/history/"))
    as_alice.post(f"{PAGE}{grant.pk}/end")
    assert "Glass broken" not in text_of(as_alice.get("/history/"))


def test_it_is_declined_by_another_operator(as_olga, as_otto, acme, helpdesk):
    as_olga.post(f"{PAGE}glass/", GLASS)
    as_otto.post(f"/changes/{ChangeRequest.objects.get().pk}/decline")

    assert not Grant.objects.exists()
    assert Event.objects.filter(kind="break_glass_declined").exists()
    assert "declined to break the glass" in text_of(as_otto.get("/changes/"))


def test_the_history_says_what_was_signed_in_advance(as_olga, as_alice, allowed):
    grant = allowed()
    as_alice.post(f"{PAGE}{grant.pk}/end")

    page = text_of(as_olga.get("/changes/"))

    assert "signed in advance" in page
    assert "up to 500 EUR in all and 10 times in all" in page
    assert "ended what was signed in advance" in page
