"""Everything that the clients' models can hold, and every end that a call can have."""

from __future__ import annotations

import pytest

from a2a import tasks
from a2a.models import Question, Task
from ledger.models import Transaction
from ledger.principals import SWEEPER
from ledger.transactions import coordinator
from tests.forgery import without_triggers
from tests.humanlayer.conftest import OPTIONS

pytestmark = pytest.mark.django_db
CHANNEL = {
    "slack": {
        "channel_or_user_id": "C1",
        "context_about_channel_or_user": "the ops team",
        "allowed_responder_ids": None,
        "experimental_slack_blocks": True,
        "thread_ts": "1700000000.000100",
    },
    "sms": {"phone_number": "+49 30 1", "context_about_user": "the owner"},
    "whatsapp": {"phone_number": "+49 30 2", "context_about_user": None},
    "email": {
        "address": "bo@example.com",
        "context_about_user": None,
        "additional_recipients": [
            {"address": "al@example.com", "context_about_user": None, "field": "cc"}
        ],
        "subject": None,
        "references_message_id": None,
        "in_reply_to_message_id": None,
        "experimental_subject_line": "Ship it?",
        "experimental_references_message_id": None,
        "experimental_in_reply_to_message_id": None,
        "template": "{{ event.spec.msg }}",
    },
}
TOLD = [
    "The client asked for C1 (the ops team) in Slack. Who is told is set here, not by the client.",
    "The client asked to reach +49 30 1 by SMS. Nothing is sent there.",
    "The client asked to reach +49 30 2 by WhatsApp. Nothing is sent there.",
    "The client asked to reach bo@example.com by e-mail. Nothing is sent there.",
]
FULL = [{"name": "a", "title": None, "description": "d", "prompt_fill": "p", "interactive": True}]


def test_a_call_with_everything_comes_back_whole_and_each_way_is_told(humanlayer):
    sent = humanlayer.call(channel=CHANNEL, reject_options=FULL, state={"a": [None, 1.5]}).json()

    assert sent["spec"]["channel"] == CHANNEL
    assert (sent["spec"]["reject_options"], sent["spec"]["state"]) == (FULL, {"a": [None, 1.5]})
    assert Transaction.objects.get().warnings == TOLD


def test_a_contact_with_everything_comes_back_whole_and_each_way_is_told(humanlayer):
    sent = humanlayer.contact(
        channel=CHANNEL, response_options=FULL, subject="Release", state={"a": 1}
    ).json()

    assert (sent["spec"]["channel"], sent["spec"]["response_options"]) == (CHANNEL, FULL)
    assert (sent["spec"]["subject"], sent["spec"]["state"]) == ("Release", {"a": 1})
    question = Question.objects.get()
    assert [note["text"] for note in question.evidence] == TOLD
    assert question.text.startswith("Release")


def test_the_older_address_of_contacts_takes_them_too(humanlayer):
    spec = {"msg": "Ship it?", "subject": None, "channel": None, "response_options": None}
    body = {"run_id": "r", "call_id": "human-1", "spec": spec, "status": None}

    assert humanlayer.post("/human_contacts", body).status_code == 200
    assert humanlayer.poll_contact("human-1")["response"] is None


@pytest.mark.parametrize("kind", ["call", "contact"])
def test_options_of_one_name_are_refused_since_nobody_could_choose(humanlayer, kind):
    twice = [OPTIONS[0], OPTIONS[0]]

    if kind == "call":
        answer = humanlayer.call(reject_options=twice)
    else:
        answer = humanlayer.contact(response_options=twice)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert not Transaction.objects.exists()
    assert not Question.objects.exists()


def test_a_call_that_its_agent_withdrew_is_denied_in_words(humanlayer, helpdesk):
    humanlayer.call(call_id="call-1")
    row = Transaction.objects.get()

    coordinator.cancel(row.pk, by=helpdesk.principal, via="rest", reason="Not needed.")

    status = humanlayer.poll("call-1")
    assert status["approved"] is False
    assert "The agent withdrew it" in status["comment"]


def test_a_call_that_was_changed_after_its_proposal_is_never_told_as_approved(humanlayer, decide):
    humanlayer.call(call_id="call-1")
    row = Transaction.objects.get()
    changed = {"to": "eve@example.com"}

    with without_triggers():
        Transaction.objects.filter(pk=row.pk).update(arguments=changed)
    decide("approve")

    assert Transaction.objects.get().state != "handed_over"
    assert humanlayer.poll("call-1")["approved"] is not True


def test_a_question_that_was_withdrawn_is_told_in_words(humanlayer):
    humanlayer.contact(call_id="human-1")

    tasks.cancel(Task.objects.get().pk, by=SWEEPER, via="system", reason="No longer needed")

    assert "No longer needed" in humanlayer.poll_contact("human-1")["response"]


def test_an_agent_that_was_switched_off_is_told_so_in_json(humanlayer, helpdesk):
    humanlayer.call(call_id="call-1")
    helpdesk.is_active = False
    helpdesk.save()

    answer = humanlayer.get("/function_calls/call-1")

    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
