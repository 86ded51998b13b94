"""Questions to the agent, answers, notes, more time, and what is sent back: one thread, sealed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import execution
from ledger.errors import InvalidRequest, NotAllowed, NotPossible
from ledger.events import outbox
from ledger.models import Event, Transaction
from ledger.principals import agent
from ledger.proof import retention
from ledger.proof.audit import verification
from ledger.states import Ending, State
from ledger.transactions import coordinator
from ledger.transactions.requests.talk import MOST_QUESTIONS
from tests.conftest import propose
from tests.forgery import end_retention
from tests.requests.conftest import approve

pytestmark = pytest.mark.django_db
HELPDESK = agent("acme", "helpdesk", "Helpdesk agent")


def asked(row: Transaction, by: object, text: str = "Which order is it?") -> Transaction:
    return coordinator.ask(row.pk, by=by, via="web", text=text)


def answered(row: Transaction, text: str = "Order 7.") -> Transaction:
    return coordinator.answer(row.pk, by=HELPDESK, via="api", text=text)


def test_the_agent_is_asked_and_answers(refund, alice, as_helpdesk):
    asked(refund, alice)
    body = as_helpdesk.get(f"/transactions/{refund.pk}").json()
    assert body["question"]["text"] == "Which order is it?"
    assert "question" in body["outcome"]["sentence"]

    answer = as_helpdesk.post(f"/transactions/{refund.pk}/answer", {"text": "Order 7."})
    assert answer.status_code == 200
    assert answer.json()["question"] is None
    assert Event.objects.get(subject=refund.pk, kind="answered").reason == "Order 7."
    verification.verify()


def test_the_clock_rests_until_the_answer(refund, alice):
    before = refund.expires_at
    waiting = asked(refund, alice)
    assert waiting.expires_at == before + timedelta(hours=1)
    back = answered(refund)
    assert timedelta(0) <= back.expires_at - before < timedelta(seconds=30)
    verification.verify()


def test_the_same_question_twice_is_one(refund, alice):
    first = asked(refund, alice)
    assert asked(refund, alice).expires_at == first.expires_at
    assert Event.objects.filter(subject=refund.pk, kind="asked").count() == 1


def test_it_rests_no_longer_than_the_contract_lets_it_wait(refund, alice):
    longest = refund.created_at + timedelta(days=1)
    for number in range(MOST_QUESTIONS):
        row = asked(refund, alice, f"Question {number}?")
    assert row.expires_at <= longest
    with pytest.raises(NotPossible, match="that is all"):
        asked(refund, alice)
    verification.verify()


def test_the_same_answer_again_is_the_same(refund, alice):
    asked(refund, alice)
    first = answered(refund)
    assert answered(refund).expires_at == first.expires_at
    with pytest.raises(NotPossible, match="No question"):
        answered(refund, "Something else.")


def test_an_answer_nobody_asked_for_is_refused(refund):
    with pytest.raises(NotPossible, match="No question"):
        answered(refund)


def test_only_the_agent_that_proposed_it_answers(refund, alice, supervisor):
    asked(refund, alice)
    with pytest.raises(NotAllowed):
        coordinator.answer(refund.pk, by=supervisor.principal, via="api", text="Me!")


def test_what_waits_for_an_answer_may_be_decided(refund, alice, as_helpdesk):
    asked(refund, alice)
    row = approve(refund, alice)
    assert row.state == State.APPROVED
    with pytest.raises(NotPossible):
        answered(refund)
    assert as_helpdesk.get(f"/transactions/{refund.pk}").json()["question"] is None
    execution.commit(row.pk)
    verification.verify()


def test_an_empty_question_is_none(refund, alice):
    with pytest.raises(InvalidRequest):
        asked(refund, alice, "  ")


def test_more_time_within_the_longest_of_the_contract(refund, alice):
    row = coordinator.extend(refund.pk, timedelta(hours=1), by=alice, via="web")
    assert row.expires_at == refund.expires_at + timedelta(hours=1)
    with pytest.raises(InvalidRequest, match="minutes longer"):
        coordinator.extend(refund.pk, timedelta(days=1), by=alice, via="web")
    approve(row, alice)
    verification.verify()


def test_what_is_over_is_not_given_more_time(refund, alice, bob):
    coordinator.reject(refund.pk, digest=refund.intent_digest, by=bob, via="web", reason="No.")
    with pytest.raises(NotPossible):
        coordinator.extend(refund.pk, timedelta(hours=1), by=alice, via="web")


def test_notes_are_for_people(refund, alice, as_helpdesk):
    coordinator.note(refund.pk, by=alice, via="web", text="Called the customer.")
    assert "Called" not in as_helpdesk.get(f"/transactions/{refund.pk}").content.decode()
    assert Event.objects.get(subject=refund.pk, kind="noted").reason == "Called the customer."
    verification.verify()


def test_what_is_sent_back_is_proposed_anew(refund, alice, as_helpdesk):
    row = coordinator.send_back(
        refund.pk, digest=refund.intent_digest, by=alice, via="web", reason="48.20, please."
    )
    assert (row.state, row.ending) == (State.ROLLING_BACK, Ending.SENT_BACK)
    execution.roll_back(row.pk)
    body = as_helpdesk.get(f"/transactions/{refund.pk}").json()
    assert body["change_request"]["text"] == "48.20, please."
    assert not body["outcome"]["do_not_retry"]

    answer = as_helpdesk.propose(
        "refund", arguments={"order": "o1", "amount": "48.20"}, replaces=str(refund.pk)
    )
    assert answer.status_code == 201
    new = as_helpdesk.get(f"/transactions/{answer.json()['transaction_id']}").json()
    assert new["replaces"] == str(refund.pk)
    body = as_helpdesk.get(f"/transactions/{refund.pk}").json()
    assert body["replaced_by"] == new["transaction_id"]
    verification.verify()


def test_who_proposes_anew_at_once_is_told_to_come_back(reserved, alice, as_helpdesk):
    sent = {"digest": reserved.intent_digest, "reason": "Two nights."}
    coordinator.send_back(reserved.pk, by=alice, via="web", **sent)
    new = {"arguments": {"guest": "Ada", "room": "7", "nights": 2}, "replaces": str(reserved.pk)}
    answer = as_helpdesk.propose("reserve", key="anew", **new)
    assert (answer.status_code, answer.json()["code"]) == (409, "request_in_progress")
    assert answer.headers["Retry-After"]
    execution.roll_back(reserved.pk)
    assert as_helpdesk.propose("reserve", key="anew", **new).status_code == 201


def test_only_what_was_sent_back_to_it_is_replaced(refund, as_helpdesk):
    other = propose("refund", order="o2", amount="1.00")
    answer = as_helpdesk.propose(
        "refund", arguments={"order": "o3", "amount": "1.00"}, replaces=str(other.pk)
    )
    assert answer.status_code == 422
    assert "sent back" in answer.json()["detail"]


def test_its_texts_are_erased_with_the_content(refund, edited, alice):
    end_retention(refund.pk)
    refund.refresh_from_db()
    asked(refund, alice)
    answered(refund)
    coordinator.note(refund.pk, by=alice, via="web", text="Called the customer.")
    row = edited(Transaction.objects.get(pk=refund.pk), amount="48.20")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    execution.roll_back(row.pk)
    while owed := outbox.overdue():
        for delivery in owed:
            outbox.deliver(delivery)
    retention.erase_due()
    row.refresh_from_db()
    assert row.content_erased_at is not None
    assert not Event.objects.filter(subject=row.pk, kind="noted").exclude(reason="").exists()
    assert row.revisions.get().content == {}
    verification.verify()
