"""Functions that Assent carries out itself: the client is never told to run its own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from a2a.doors.humanlayer.calls import bindings, bound_calls
from a2a.doors.humanlayer.models import Binding, BoundCall
from ledger import execution
from ledger.contracts import NothingHappened
from ledger.events import four_eyes
from ledger.models import IdempotencyKey, Transaction
from ledger.principals import Principal
from ledger.proof import retention
from ledger.transactions import coordinator
from tests.forgery import end_retention, move_deadline
from tests.humanlayer.conftest import OPTIONS
from tests.toolbox.world import world

pytestmark = pytest.mark.django_db
OLGA, OTTO = (Principal("user", name, name.title()) for name in ("olga", "otto"))
KWARGS = {"reference": "inv-1", "amount": "20.00"}


@pytest.fixture
def bind(acme):
    """Two operators, as what is bound to most tools takes."""

    def act(tool: str, function: str = "send_money", agent=None) -> Binding:
        row = bindings.bind(acme, agent, function, tool, by=OLGA, via="admin")
        if change := bindings.waiting_for(row):
            four_eyes.confirm(change, seen=change.sha256, by=OTTO, via="admin")
        row.refresh_from_db()
        return row

    return act


@pytest.fixture
def call(humanlayer):
    def send(call_id: str = "call-1", fn: str = "send_money", **spec):
        return humanlayer.call(fn=fn, call_id=call_id, **{"kwargs": KWARGS, **spec})

    return send


def carried_out() -> Transaction:
    row = Transaction.objects.get()
    execution.commit(row.pk)
    return Transaction.objects.get()


def test_a_bound_call_is_a_transaction_of_the_tool_and_never_answers_approved(
    bind, call, humanlayer, decide
):
    bind("pay")

    sent = call(state={"step": 1}).json()

    row = Transaction.objects.get()
    assert (row.tool, row.payload, row.state) == ("pay", KWARGS, "prepared")
    assert sent["spec"]["fn"] == "send_money"
    assert (sent["spec"]["kwargs"], sent["spec"]["state"]) == (KWARGS, {"step": 1})
    assert sent["assent"]["carried_out_by"] == "assent"
    assert sent["status"]["approved"] is None
    decide("approve")
    assert humanlayer.poll("call-1")["approved"] is None
    carried_out()
    status = humanlayer.poll("call-1")
    assert status["approved"] is False
    assert status["comment"].startswith("Done by Assent: re_1. Do not run it yourself.")
    assert status["responded_at"]
    assert sum(world.effects.values()) == 1


def test_the_same_call_again_has_one_effect_whatever_became_of_the_binding(
    bind, call, humanlayer, decide, acme
):
    bind("pay")
    call()
    decide("approve")

    bind("")
    again = call()
    carried_out()
    bind("write_note")
    last = call().json()

    assert again.status_code == 200
    assert last["status"]["comment"].startswith("Done by Assent: re_1.")
    assert (Transaction.objects.count(), sum(world.effects.values())) == (1, 1)
    assert last["assent"]["tool"] == "pay"


def test_a_call_that_came_before_its_binding_stays_with_its_agent(bind, call, humanlayer, decide):
    call()
    bind("pay")

    again = call()
    decide("approve")

    assert again.status_code == 200
    assert humanlayer.poll("call-1")["approved"] is True
    assert Transaction.objects.get().state == "handed_over"
    assert not world.effects


def test_a_binding_that_is_removed_leaves_later_calls_to_the_agent(bind, call, humanlayer, decide):
    bind("pay")
    bind("")

    call()

    assert Transaction.objects.get().tool == "humanlayer.send_money"


def test_the_same_operation_under_another_id_is_the_same_transaction(bind, call, humanlayer):
    bind("pay")
    call("call-1")
    call("call-2")
    row = Transaction.objects.get()
    coordinator.approve(row.pk, digest=row.intent_digest, by=OLGA, via="web")
    carried_out()

    said = [humanlayer.poll(f"call-{number}")["comment"] for number in (1, 2)]

    assert said[0] == said[1]
    assert sum(world.effects.values()) == 1


def test_another_call_of_the_same_id_is_told_so(bind, call):
    bind("pay")
    call()

    others = [call(kwargs={**KWARGS, "amount": "21.00"}), call(state={"step": 2})]

    assert [(other.status_code, other.json()["code"]) for other in others] == [
        (409, "call_id_taken")
    ] * 2
    assert Transaction.objects.count() == 1


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({}, "Field required"),
        ({**KWARGS, "amount": "much"}, "amount"),
        ({**KWARGS, "cc": "eve"}, "cc"),
    ],
)
def test_arguments_that_do_not_fit_are_a_denial_that_says_so(bind, call, humanlayer, kwargs, words):
    bind("pay")

    sent = call(kwargs=kwargs)

    assert sent.status_code == 200
    status = humanlayer.poll("call-1")
    assert status == sent.json()["status"]
    assert status["approved"] is False
    assert status["comment"].startswith("Nothing was carried out.")
    assert words in status["comment"]
    assert call(kwargs=kwargs).json() == sent.json()
    assert humanlayer.post("/agent/function_calls/call-1/respond", {}).status_code == 403
    assert not Transaction.objects.exists()


def test_what_the_tool_refuses_is_a_denial_with_its_reason(bind, call, humanlayer):
    bind("pay")

    sent = call(kwargs={**KWARGS, "reference": "unknown"})

    assert sent.status_code == 200
    status = humanlayer.poll("call-1")
    assert status["approved"] is False
    assert "There is no such payment." in status["comment"]
    assert Transaction.objects.get().state == "refused"


def test_an_agent_that_may_not_use_the_tool_is_denied_and_nothing_falls_back(
    bind, call, humanlayer, helpdesk
):
    bind("pay")
    helpdesk.tools = ["humanlayer.*"]
    helpdesk.save()

    assert call().status_code == 200

    status = humanlayer.poll("call-1")
    assert status["approved"] is False
    assert "may not use the tool" in status["comment"]
    assert not Transaction.objects.exists()


def test_a_rejection_is_told_with_its_reason_and_option(bind, call, humanlayer, decide):
    bind("pay")
    call(reject_options=OPTIONS)

    decide("reject", "Never. Really.")

    status = humanlayer.poll("call-1")
    assert (status["approved"], status["comment"]) == (False, "Never. Really.")
    assert status["reject_option_name"] == "never"


def test_a_call_that_expired_is_denied_in_words(bind, call, humanlayer):
    bind("pay")
    call()
    row = Transaction.objects.get()
    move_deadline(row.pk)

    coordinator.expire(row.pk)

    status = humanlayer.poll("call-1")
    assert status["approved"] is False
    assert "Nobody signed it off in time" in status["comment"]


def test_a_call_that_fails_is_denied_in_words(bind, call, humanlayer, decide):
    def broken() -> None:
        raise NothingHappened("The account is closed.")

    bind("pay")
    call()
    world.before.append(broken)
    decide("approve")
    row = carried_out()
    execution.roll_back(row.pk)

    status = humanlayer.poll("call-1")

    assert status["approved"] is False
    assert "It could not be carried out" in status["comment"]
    assert "Done" not in status["comment"]


def test_a_call_in_doubt_waits_while_it_is_looked_up_and_then_says_so(
    bind, call, humanlayer, decide
):
    def lost() -> None:
        raise ConnectionError("no answer")

    bind("launch")
    call(kwargs={"rocket": "ariane"})
    world.after.append(lost)
    decide("approve")
    row = carried_out()
    assert row.state == "in_doubt"

    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    assert humanlayer.poll("call-1")["approved"] is None
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=None)

    status = humanlayer.poll("call-1")
    assert status["approved"] is False
    assert "whether it took effect is not known yet" in status["comment"]
    assert status["comment"].endswith("Do not run it yourself.")


def test_a_binding_of_one_agent_goes_before_that_of_all(bind, call, helpdesk):
    bind("write_note")
    bind("pay", agent=helpdesk)

    call()

    assert Transaction.objects.get().tool == "pay"


def test_people_see_who_carries_it_out_and_what_the_client_offers(bind, call, as_alice):
    bind("pay")
    call(reject_options=OPTIONS, channel={"sms": {"phone_number": "+49 30 1"}})
    row = Transaction.objects.get()

    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()

    assert "<code>send_money</code>" in page
    assert "Assent carries this out; the agent's own function does not run." in page
    assert "+49 30 1 by SMS. Nothing is sent there." in page
    assert "Not now, ask tomorrow" in page


def test_a_bound_call_is_escalated_and_found_by_its_agent_alone(bind, call, humanlayer):
    bind("pay")
    call()
    escalate = "/agent/function_calls/call-1/escalate_email"

    assert humanlayer.post(escalate, {"escalation_msg": "Urgent."}).status_code == 200
    assert Transaction.objects.get().events.last().kind == "escalated"
    assert humanlayer.get("/function_calls/call-9").status_code == 404


def test_what_the_client_sent_is_erased_with_the_transaction(bind, call, humanlayer, decide):
    bind("pay")
    call()
    decide("reject", "No.")
    row = Transaction.objects.get()
    execution.roll_back(row.pk)
    refused = call("call-2", kwargs={})
    assert refused.status_code == 200
    end_retention(row.pk)
    BoundCall.objects.update(retain_until=Now() - timedelta(days=1))

    retention.erase_due()

    assert [row.spec for row in BoundCall.objects.all()] == [{}, {}]
    assert humanlayer.poll("call-1")["approved"] is False
    assert "erased under retention" in humanlayer.poll("call-2")["comment"]


def test_what_was_erased_while_the_app_was_left_out_is_emptied_once_it_is_back(
    bind, call, decide, monkeypatch
):
    bind("pay")
    call()
    decide("reject", "No.")
    row = Transaction.objects.get()
    execution.roll_back(row.pk)
    end_retention(row.pk)
    BoundCall.objects.update(retain_until=Now() - timedelta(days=1))
    with monkeypatch.context() as without_the_app:
        without_the_app.setattr(retention, "_related", [])
        retention.erase_due()
    assert BoundCall.objects.get().spec

    retention.erase_due()

    assert BoundCall.objects.get().spec == {}


def test_a_crash_between_keeping_and_proposing_leaves_nothing_known(bind, call, humanlayer):
    bind("pay")
    call()
    IdempotencyKey.objects.all().delete()
    row = BoundCall.objects.get()

    assert humanlayer.get("/function_calls/call-1").status_code == 404
    assert bound_calls.call_behind(Transaction.objects.get()) is None
    assert row.refusal == ""
    assert call().status_code == 200
    assert Transaction.objects.count() == 1


@pytest.mark.parametrize(("function", "queries"), [("send_email", 2), ("send_money", 3)])
def test_a_poll_asks_the_database_no_more_than_it_has_to(
    bind, call, humanlayer, django_assert_num_queries, function, queries
):
    bind("pay")
    call(fn=function)

    with django_assert_num_queries(queries):
        status = humanlayer.poll("call-1")

    assert status["approved"] is None


def test_a_poll_of_a_question_is_two_queries(humanlayer, django_assert_num_queries):
    humanlayer.contact(call_id="human-1")

    with django_assert_num_queries(2):
        status = humanlayer.poll_contact("human-1")

    assert status["response"] is None
