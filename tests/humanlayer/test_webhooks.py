"""Who does not poll is told how a call or a contact ended, once, in HumanLayer's own form."""

from __future__ import annotations

import pytest

from a2a.doors.humanlayer.calls import bindings
from a2a.models import Question
from a2a.tasks import questions
from ledger import execution
from ledger.events import outbox
from ledger.models import Delivery, Transaction
from ledger.transactions import coordinator
from tests.forgery import move_deadline
from tests.humanlayer.conftest import OPTIONS
from tests.ledger.webhook_receiver import SECRET, Receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def receiver():
    """It takes what is signed as it should be, and nothing else."""
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def listening(helpdesk, receiver, settings):
    def with_form(form: str = "humanlayer") -> Receiver:
        settings.WEBHOOK_NETWORKS = ["127.0.0.0/8", "::1/128"]
        helpdesk.webhook_url, helpdesk.webhook_secret = receiver.url, SECRET
        helpdesk.webhook_form = form
        helpdesk.save()
        return receiver

    return with_form


def deliver_all() -> None:
    while due := outbox.overdue():
        for delivery_id in due:
            outbox.deliver(delivery_id)


def news_of(receiver: Receiver) -> list:
    deliver_all()
    return [news for _, news in receiver.taken]


def test_an_approval_is_told_as_the_client_would_read_it(listening, humanlayer, decide):
    receiver = listening()
    humanlayer.call(call_id="call-1", state={"step": 3})
    assert news_of(receiver) == []

    decide("approve", "Fine.")

    (news,) = news_of(receiver)
    assert (news["type"], news["is_test"]) == ("function_call.completed", False)
    assert news["event"] == humanlayer.get("/function_calls/call-1").json()
    assert news["event"]["status"]["approved"] is True
    assert news["event"]["spec"]["state"] == {"step": 3}


def test_what_was_proposed_elsewhere_is_never_told_as_a_call_that_was_denied(
    listening, as_helpdesk, decide
):
    receiver = listening()
    as_helpdesk.propose(key="humanlayer:call-1")

    execution.commit(decide("approve").pk)

    assert {news["type"] for news in news_of(receiver)} <= {
        "transaction.approved",
        "transaction.committing",
        "transaction.committed",
    }


def test_a_rejection_is_told_once_although_more_happens_to_the_transaction(
    listening, humanlayer, decide
):
    receiver = listening("humanlayer_bare")
    humanlayer.call(call_id="call-1", reject_options=OPTIONS)

    row = decide("reject", "Never")
    deliver_all()
    execution.roll_back(row.pk)

    (news,) = news_of(receiver)
    assert (news["call_id"], news["status"]["approved"]) == ("call-1", False)
    assert news["status"]["reject_option_name"] == "never"


def test_what_expires_is_told_with_words(listening, humanlayer):
    receiver = listening()
    humanlayer.call(call_id="call-1")
    row = Transaction.objects.get()
    move_deadline(row.pk)

    coordinator.expire(row.pk)

    (news,) = news_of(receiver)
    assert news["event"]["status"]["approved"] is False
    assert "Nobody signed it off in time" in news["event"]["status"]["comment"]


def test_what_assent_carries_out_is_told_when_it_is_done(
    listening, humanlayer, decide, acme, alice
):
    receiver = listening()
    bindings.bind(acme, None, "fly", "launch", by=alice, via="admin")
    humanlayer.call(fn="fly", call_id="call-1", kwargs={"rocket": "ariane"})
    row = decide("approve")
    assert news_of(receiver) == []

    execution.commit(row.pk)

    (news,) = news_of(receiver)
    assert news["event"]["status"]["approved"] is False
    assert news["event"]["status"]["comment"].startswith("Done by Assent: re_1.")


@pytest.mark.parametrize("form", ["humanlayer", "humanlayer_bare"])
def test_an_answer_of_a_person_is_told(listening, humanlayer, alice, form):
    receiver = listening(form)
    humanlayer.contact(call_id="human-1", response_options=OPTIONS)
    question = Question.objects.get()

    questions.answer(question.pk, {"answer": "later"}, by=alice, via="web")

    (news,) = news_of(receiver)
    event = news if form == "humanlayer_bare" else news["event"]
    assert form == "humanlayer_bare" or news["type"] == "human_contact.completed"
    assert (event["call_id"], event["status"]["response_option_name"]) == ("human-1", "later")
    assert event == humanlayer.get("/contact_requests/human-1").json()


def test_a_question_that_nobody_answered_is_told_with_words(listening, humanlayer):
    receiver = listening()
    humanlayer.contact(call_id="human-1")
    question = Question.objects.get()
    Question.objects.filter(pk=question.pk).update(expires_at=question.created_at)

    questions.lapse(question.pk)

    (news,) = news_of(receiver)
    assert news["event"]["status"]["response"] == "Nobody answered in time."


def test_other_transactions_and_agents_without_the_form_are_told_as_before(
    listening, humanlayer, decide, a_payment, alice
):
    receiver = listening("")
    humanlayer.call(call_id="call-1")
    decide("approve")
    assert [news["type"] for news in news_of(receiver)][-1] == "transaction.handed_over"

    receiver.taken.clear()
    listening("humanlayer")
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")

    assert [news["type"] for news in news_of(receiver)] == ["transaction.rolling_back"]


def test_a_receiver_that_fails_is_told_again(listening, humanlayer, decide):
    receiver = listening()
    receiver.statuses = [500]
    humanlayer.call(call_id="call-1")
    decide("approve")
    deliver_all()
    waiting = Delivery.objects.get(state="waiting")

    outbox.retry(waiting.pk)

    assert [news["type"] for news in news_of(receiver)] == ["function_call.completed"]
    assert [message for message, _ in receiver.taken] == [f"msg_{waiting.pk}"]


def test_an_address_inside_is_refused_however_the_operator_came_by_it(
    listening, humanlayer, decide, settings
):
    receiver = listening()
    settings.WEBHOOK_NETWORKS = []
    humanlayer.call(call_id="call-1")
    decide("approve")

    assert news_of(receiver) == []
    assert "AddressRefused" in Delivery.objects.exclude(error="").get().error
