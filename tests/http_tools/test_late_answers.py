"""Answers that come after the lease was lost or for another operation; holds at bad moments."""

from __future__ import annotations

import pytest
from django.db import connections
from django.db.models.functions import Now

from ledger import execution
from ledger.events import brakes
from ledger.models import Brake, Transaction
from ledger.proof.audit.verification import verify
from ledger.proof.log import checkpoints
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.http_tools.conftest import OPERATOR
from tests.second_workers import TwoAnswers, late_after_the_second, late_before_the_second

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = (200, {"receipt": {"id": "re_1"}})
SECOND = (200, {"receipt": {"id": "re_2"}})
OVERTAKEN = (409, {"type": "conflict", "detail": "Another worker has taken over."})
NOTHING = (422, {"type": "nothing-happened", "detail": "Closed."})


@pytest.fixture
def refund(registered, service, alice):
    """A refund that was signed off, of a service whose owner lets it be asked again."""

    def make(**changes):
        registered(**{"routes": [], "contract": {"retry_safe": True, "timeout_s": 60}, **changes})
        row = propose("refund_invoice", invoice="7", amount=48.2)
        return coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    return make


def answered(service, first, second) -> TwoAnswers:
    service.answers["commit"] = answers = TwoAnswers(first, second)
    return answers


def kinds(row):
    return [event.kind for event in row.events.order_by("seq")]


def has_audit_trail() -> bool:
    checkpoints.make()
    verify()
    return True


# --- the lease was lost, and another worker has asked -------------------------------------------


@pytest.mark.parametrize("order", [late_after_the_second, late_before_the_second])
def test_a_late_answer_with_the_same_receipt_is_no_news(order, refund, service):
    row = order(refund(), answered(service, FIRST, FIRST))

    assert (row.state, row.receipt, row.late_receipt) == ("committed", "re_1", "")
    assert kinds(row).count("committed") == 1
    assert [asked.body["fencing"] for asked in service.asked] == [1, 2]
    assert has_audit_trail()


@pytest.mark.parametrize("order", [late_after_the_second, late_before_the_second])
def test_a_late_answer_with_another_receipt_overwrites_nothing_and_is_kept(order, refund, service):
    row = order(refund(), answered(service, FIRST, SECOND))

    assert (row.state, row.receipt, row.late_receipt) == ("committed", "re_2", "re_1")
    assert kinds(row).count("late_receipt") == 1
    assert has_audit_trail()


@pytest.mark.parametrize("order", [late_after_the_second, late_before_the_second])
@pytest.mark.parametrize("late", [OVERTAKEN, NOTHING, (500, {})], ids=["409", "422", "500"])
def test_a_late_refusal_does_not_end_what_the_second_worker_does(late, order, refund, service):
    row = order(refund(), answered(service, late, SECOND))

    assert (row.state, row.receipt, row.late_receipt) == ("committed", "re_2", "")
    assert "failed" not in kinds(row)


def test_a_late_receipt_of_what_was_refused_meanwhile_is_put_before_operators(refund, service):
    row = late_after_the_second(refund(), answered(service, FIRST, NOTHING))

    assert (row.ending, row.receipt, row.late_receipt) == ("failed", "", "re_1")
    assert has_audit_trail()


# --- an answer for another operation -------------------------------------------------------------


def of(key, answer):
    status, body = answer
    return status, {"operation_key": key, **body}


OWN, OTHER = "refund_invoice:acme:7", "refund_invoice:acme:8"


@pytest.mark.parametrize("answer", [FIRST, OVERTAKEN, NOTHING], ids=["receipt", "409", "422"])
@pytest.mark.parametrize("key", [OTHER, OTHER.upper(), "", None, 7, [OWN]])
def test_an_answer_for_another_operation_proves_nothing(key, answer, refund, service):
    row = refund(contract={})
    service.answers["commit"] = of(key, answer)

    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.receipt) == ("in_doubt", "")
    assert "another operation" in row.error_detail


def test_an_answer_that_names_its_operation_counts(refund, service):
    row = refund()
    service.answers["commit"] = of(OWN, FIRST)

    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "re_1")


@pytest.mark.parametrize("found", [FIRST, (404, {}), NOTHING], ids=["200", "404", "422"])
def test_a_look_up_that_finds_another_operation_settles_nothing(found, refund, service):
    row = refund(contract={}, routes=["find_receipt"], receipts_are_complete=True)
    service.answers |= {"commit": (500, {}), "operations": of(OTHER, found)}
    execution.commit(row.pk)

    execution.commit(row.pk)
    row.refresh_from_db()
    assert row.state == "in_doubt"

    service.answers["operations"] = of(OWN, FIRST)
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    execution.commit(row.pk)
    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "re_1")


COMPENSATIONS = {
    "another operation": of(OTHER, (200, {"receipt": {"id": "un_8"}})),
    "no receipt": (200, {}),
    "a receipt that is empty": (200, {"receipt": {"id": ""}}),
}


@pytest.mark.parametrize("what", COMPENSATIONS)
def test_a_compensation_is_asked_for_again_until_its_own_receipt_comes(
    what, refund, service, alice
):
    row = refund(routes=["compensate"], contract={"consequence_level": "COMPENSABLE"})
    service.answers |= {"commit": FIRST, "compensate": COMPENSATIONS[what]}
    execution.commit(row.pk)
    coordinator.compensate(row.pk, by=alice, via="web", reason="Wrong customer.")

    execution.compensate(row.pk)
    row.refresh_from_db()
    assert (row.state, row.compensation_receipt) == ("compensating", "")

    service.answers["compensate"] = of(OWN, (200, {"receipt": {"id": "un_7"}}))
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    execution.compensate(row.pk)
    row.refresh_from_db()
    assert (row.state, row.compensation_receipt) == ("compensated", "un_7")


# --- a hold at a bad moment ----------------------------------------------------------------------


def held_while_it_is_asked(answer):
    """An operator holds the tool after the request has left: the thread is the service's own."""

    def hold(_):
        try:
            brakes.hold("acme", "refund_invoice", "It changed.", by=OPERATOR, via="command")
        finally:
            connections.close_all()
        return answer

    return hold


def test_a_hold_after_the_last_look_loses_no_answer(refund, service):
    """The request is on its way already: what it did is recorded, and the next one is not sent."""
    row = refund()
    service.answers["commit"] = held_while_it_is_asked(FIRST)
    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "re_1")
    assert Brake.objects.holds_of("acme", "refund_invoice").get().why == "It changed."


def test_a_second_attempt_waits_for_the_end_of_the_hold_and_costs_none_meanwhile(refund, service):
    row = refund()
    service.answers["commit"] = held_while_it_is_asked((500, {}))
    execution.commit(row.pk)
    for _ in range(8):  # more often than the contract lets it be tried
        Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
        execution.commit(row.pk)
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("in_doubt", 1)
    assert row.next_attempt_at is not None
    assert service.verbs() == ["commit"]

    brakes.end_hold("acme", "refund_invoice", by=OPERATOR, via="command")
    service.answers["commit"] = SECOND
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    execution.commit(row.pk)
    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "re_2")
