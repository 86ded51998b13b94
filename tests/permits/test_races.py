"""Two at once: one permit is redeemed once, whatever else happens at the same moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from ledger.errors import LedgerError
from ledger.execution import posted_receipts, redemption
from ledger.models import Event, Permit, Transaction
from ledger.transactions import coordinator

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 6


def at_once(*calls):
    """Call them in threads that start together; each result, or the refusal."""
    together = threading.Barrier(len(calls))

    def run(call):
        together.wait(30)
        try:
            return call()
        except LedgerError as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def claims_of(row):
    return Event.objects.filter(subject=row.pk, kind="claimed").count()


@pytest.fixture
def agent(helpdesk):
    return helpdesk.principal


@pytest.fixture
def fetched(signed_off, agent):
    def fetch(account):
        row = signed_off(account)
        return row, redemption.issue(row.pk, by=agent, via="api").permit

    return fetch


def redeem(permit, **how):
    return lambda: redemption.redeem(permit.pk, by=redemption.BEARER, via="api", **how)


def refusals(answers):
    return [answer for answer in answers if isinstance(answer, LedgerError)]


def test_of_many_who_redeem_at_once_one_may_act(fetched):
    for n in range(ROUNDS):
        row, permit = fetched(str(n))

        answers = at_once(*[redeem(permit, key=f"k{who}") for who in range(6)])

        assert len(refusals(answers)) == 5
        assert claims_of(row) == 1
        row.refresh_from_db()
        assert (row.state, row.fencing_token) == ("committing", 1)


def test_the_same_key_at_once_is_answered_alike_and_claims_once(fetched):
    row, permit = fetched("7")

    answers = at_once(*[redeem(permit, key="the-same") for _ in range(4)])

    assert refusals(answers) == []
    assert [answer.is_replay for answer in answers].count(False) == 1
    assert claims_of(row) == 1


def test_who_redeems_and_who_withdraws_at_once_do_not_both_succeed(fetched, olga):
    for n in range(ROUNDS):
        row, permit = fetched(str(n))

        def withdraw(pk=row.pk):
            return coordinator.resolve(pk, outcome="withdraw", by=olga, via="web", reason="No.")

        answers = at_once(redeem(permit), withdraw)

        assert len(refusals(answers)) == 1
        row.refresh_from_db()
        assert (row.state == "committing") == (claims_of(row) == 1)
        assert row.state in {"committing", "rolling_back"}


def test_who_redeems_while_a_new_permit_is_fetched_redeems_the_one_that_counts(fetched, agent):
    for n in range(ROUNDS):
        row, permit = fetched(str(n))

        def fetch(pk=row.pk):
            return redemption.issue(pk, by=agent, via="api")

        redeemed, issued = at_once(redeem(permit), fetch)

        assert len(refusals([redeemed, issued])) == 1
        row.refresh_from_db()
        was_redeemed = isinstance(issued, LedgerError)
        assert (row.state == "committing") == was_redeemed == (claims_of(row) == 1)
        assert Permit.objects.filter(transaction=row, replaced_at=None).count() == 1


def test_a_receipt_and_nothing_happened_at_once_do_not_both_count(fetched, agent):
    for n in range(ROUNDS):
        row, permit = fetched(str(n))
        redeem(permit)()

        def receipt(pk=row.pk):
            return posted_receipts.take_receipt(pk, {"id": "del_7"}, by=agent, via="api")

        def nothing(pk=row.pk):
            return posted_receipts.take_refusal(pk, "It was gone.", by=agent, via="api")

        at_once(receipt, nothing)

        row.refresh_from_db()
        ended = {("committed", "del_7", ""), ("rolling_back", "", "del_7")}
        assert (row.state, row.receipt, row.late_receipt) in ended


def test_the_same_receipt_from_two_processes_is_one(fetched, agent):
    row, permit = fetched("7")
    redeem(permit)()

    def receipt():
        return posted_receipts.take_receipt(row.pk, {"id": "del_7"}, by=agent, via="api")

    answers = at_once(receipt, receipt, receipt)

    assert refusals(answers) == []
    assert Transaction.objects.get(pk=row.pk).late_receipt == ""
    assert Event.objects.filter(subject=row.pk, kind="committed").count() == 1
