"""Function calls on the wire: what the client sends, what it gets back, and what is never kept."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection

from ledger.models import AgentToken, Transaction
from ledger.transactions import coordinator
from tests.forgery import move_deadline
from tests.humanlayer.conftest import OPTIONS, HumanLayer

pytestmark = pytest.mark.django_db


def test_a_call_comes_back_as_it_was_sent_and_waits(humanlayer):
    spec = {"kwargs": {"to": "ann@example.com"}, "state": {"step": 3}, "reject_options": OPTIONS}

    sent = humanlayer.call(call_id="call-1", **spec).json()

    assert (sent["run_id"], sent["call_id"]) == ("run-1", "call-1")
    assert sent["spec"] == {"fn": "send_email", "channel": None, **spec}
    assert sent["status"]["approved"] is None
    assert sent["status"]["requested_at"]
    assert humanlayer.get("/function_calls/call-1").json() == sent
    row = Transaction.objects.get()
    assert (row.tool, row.run_id) == ("humanlayer.send_email", "run-1")
    assert sent["assent"]["url"].endswith(f"/transactions/{row.pk}/")
    assert sent["assent"]["terms"]["quorum"] == 1


def test_an_approval_is_told_with_its_comment_and_hands_the_call_over(humanlayer, decide):
    humanlayer.call(call_id="call-1")

    row = decide("approve", "Fine.")

    status = humanlayer.poll("call-1")
    assert (status["approved"], status["comment"]) == (True, "Fine.")
    assert status["responded_at"]
    assert row.state == "handed_over"


@pytest.mark.parametrize(
    ("reason", "option"),
    [
        ("Not now, ask tomorrow", "later"),
        ("Never", "never"),
        ("Never. Really.", "never"),
        ("Wrong address", None),
    ],
)
def test_a_rejection_is_told_with_its_comment_and_the_option(humanlayer, decide, reason, option):
    humanlayer.call(call_id="call-1", reject_options=OPTIONS)

    decide("reject", reason)

    status = humanlayer.poll("call-1")
    assert (status["approved"], status["comment"]) == (False, reason)
    assert status["reject_option_name"] == option


def test_a_call_that_expired_is_refused_with_words(humanlayer):
    humanlayer.call(call_id="call-1")
    row = Transaction.objects.get()
    assert row.expires_at - row.created_at == timedelta(days=1)

    move_deadline(row.pk)
    coordinator.expire(row.pk)

    status = humanlayer.poll("call-1")
    assert status["approved"] is False
    assert "Nobody signed it off in time" in status["comment"]


def test_the_same_call_again_is_the_same_call_and_another_one_is_told_so(humanlayer):
    first = humanlayer.call(call_id="call-1", state={"step": 1})

    again = humanlayer.call(call_id="call-1", state={"step": 1})
    others = [
        humanlayer.call(call_id="call-1", state={"step": 2}),
        humanlayer.call(call_id="call-1", kwargs={"to": "eve@example.com"}, state={"step": 1}),
    ]

    assert again.json() == first.json()
    assert [(other.status_code, other.json()["code"]) for other in others] == [
        (409, "call_id_taken")
    ] * 2
    assert Transaction.objects.count() == 1


def test_ids_are_an_agents_own(humanlayer, helpdesk, acme):
    other = helpdesk.__class__.objects.create(tenant=acme, slug="other", name="Other", tools=["*"])
    stranger = HumanLayer(AgentToken.issue(other, scopes=["propose", "submit"])[1])
    humanlayer.call(call_id="call-1")

    assert stranger.get("/function_calls/call-1").status_code == 404
    assert stranger.call(call_id="call-1", kwargs={}).status_code == 200
    assert Transaction.objects.count() == 2


def test_arguments_that_were_not_sent_are_the_first_warning(humanlayer):
    humanlayer.call(kwargs={})

    assert Transaction.objects.get().warnings[0].startswith("The client did not send the arguments")


def test_a_function_named_as_a_tool_here_is_told_from_it(humanlayer):
    humanlayer.call(fn="pay", kwargs={"to": "Bo"})
    humanlayer.call(fn="send_email")

    of_pay, of_email = (row.warnings for row in Transaction.objects.order_by("created_at"))
    assert [text for text in of_pay if "not the tool pay of this installation" in text] == of_pay
    assert of_email == []


def test_a_bot_token_is_stored_nowhere(humanlayer):
    slack = {"channel_or_user_id": "C1", "bot_token": "xoxb-secret", "allowed_responder_ids": None}

    sent = humanlayer.call(channel={"slack": slack}).json()

    assert sent["spec"]["channel"]["slack"] == {
        "channel_or_user_id": "C1",
        "allowed_responder_ids": None,
    }
    with connection.cursor() as cursor:
        for table in ("ledger_transaction", "ledger_idempotencykey", "ledger_event"):
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%%xoxb-%%'")
            assert cursor.fetchone() == (0,)


@pytest.mark.parametrize(
    "spec",
    [
        {"bot_token": "xoxb-1"},
        {"channel": {"bot_token": "xoxb-1", "slack": {"channel_or_user_id": "C1"}}},
        {"state": {"channels": [{"slack": {"bot_token": "xoxb-1"}}]}},
    ],
)
def test_a_bot_token_is_stored_nowhere_wherever_it_stands(humanlayer, spec):
    assert humanlayer.call(**spec).status_code == 200

    row = Transaction.objects.get()
    assert "xoxb-1" not in json.dumps([row.payload, row.arguments, row.held])


@pytest.mark.parametrize("state", ["a\x00b", "\ud800", 10**20, [[["as", {"it": "was"}]]]])
def test_a_call_that_is_repeated_comes_back_as_it_was_sent_or_is_refused(humanlayer, state):
    first = humanlayer.call(call_id="c1", state=state)
    again = humanlayer.call(call_id="c1", state=state)

    assert first.status_code == again.status_code
    assert first.status_code == 422 or again.json()["spec"]["state"] == state


def test_an_option_that_hides_something_from_who_rejects_is_refused(humanlayer):
    options = [{"name": "later", "prompt_fill": "Not now\u202eyap"}]

    assert humanlayer.call(reject_options=options).status_code == 422


@pytest.mark.parametrize("path", ["function_calls/%00", "human_contacts/a%00b"])
def test_an_id_that_nothing_can_have_is_not_found(humanlayer, path):
    assert humanlayer.get(f"/{path}").status_code == 404


def test_a_template_is_kept_as_text_and_its_way_is_a_warning(humanlayer):
    email = {"address": "bo@example.com", "template": "{{ 7 * 7 }}"}

    sent = humanlayer.call(channel={"email": email}).json()

    assert sent["spec"]["channel"]["email"]["template"] == "{{ 7 * 7 }}"
    warnings = Transaction.objects.get().warnings
    assert any("bo@example.com by e-mail. Nothing is sent there." in each for each in warnings)
    assert "49" not in str(warnings)


def test_responders_that_cannot_be_kept_to_are_refused(humanlayer):
    slack = {"channel_or_user_id": "C1", "allowed_responder_ids": ["U1"]}

    answer = humanlayer.call(channel={"slack": slack})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert not Transaction.objects.exists()


@pytest.mark.parametrize("fn", ["", "send.email", "senden\u00fc", "<lambda>", "x" * 81])
def test_names_that_could_pass_for_others_are_refused(humanlayer, fn):
    assert humanlayer.call(fn=fn).status_code == 422


@pytest.mark.parametrize(
    "body", ["no json", "[]", "{}", '{"call_id": "call/1", "spec": {"fn": "f", "kwargs": {}}}']
)
def test_what_cannot_be_read_is_refused_with_json(humanlayer, body):
    answer = humanlayer.post("/function_calls", body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_no_agent_decides_on_its_own_call(humanlayer):
    humanlayer.call(call_id="call-1")

    answer = humanlayer.post("/agent/function_calls/call-1/respond", {"approved": True})

    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert humanlayer.poll("call-1")["approved"] is None


def test_strangers_and_wrong_methods_are_told_so_in_json(humanlayer):
    stranger = HumanLayer("assent_never-issued")

    assert stranger.get("/function_calls/call-1").json()["code"] == "not_authenticated"
    assert humanlayer.get("/function_calls").json()["code"] == "method_not_allowed"
    assert humanlayer.get("/nothing").json()["code"] == "not_found"


def test_an_agent_uses_no_function_that_its_lists_do_not_have(humanlayer, helpdesk):
    helpdesk.tools = ["pay", "humanlayer.send_email"]
    helpdesk.save()

    assert humanlayer.call(fn="send_email").status_code == 200
    assert humanlayer.call(fn="drop_table").json()["code"] == "unknown_tool"

    helpdesk.tools = ["humanlayer.*"]
    helpdesk.save()
    assert humanlayer.call(fn="drop_table").status_code == 200


def test_who_escalates_a_call_tells_people_again_and_decides_nothing(humanlayer):
    humanlayer.call(call_id="call-1")
    escalate = "/agent/function_calls/call-1/escalate_email"

    answers = [humanlayer.post(escalate, {"escalation_msg": "It is urgent."}) for _ in range(6)]

    assert [answer.status_code for answer in answers] == [200] * 5 + [409]
    event = Transaction.objects.get().events.last()
    assert (event.kind, event.reason) == ("escalated", "It is urgent.")
    assert humanlayer.poll("call-1")["approved"] is None
    named = {"escalation_msg": "Urgent.", "additional_recipients": [{"address": "x@example.com"}]}
    assert humanlayer.post(escalate, named).status_code == 422
