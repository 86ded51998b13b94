"""Calls of HumanLayer's clients in Slack: the reasons that they offer, and who carries it out."""

from __future__ import annotations

import pytest

from a2a.doors.humanlayer.calls import bindings
from approvals.models import SlackMessage
from ledger.models import AgentToken, Transaction
from tests.fake_slack import FakeSlack
from tests.humanlayer.conftest import OPTIONS, HumanLayer
from tests.slack.conftest import settle

pytestmark = pytest.mark.django_db(transaction=True)
REASON, OFFERED = ("reason", "reason"), ("offered", "answer")
LONG = {"name": "long", "prompt_fill": "x" * 76}


@pytest.fixture
def client(helpdesk):
    return HumanLayer(AgentToken.issue(helpdesk, scopes=["propose", "submit"])[1])


@pytest.fixture
def asked(slack, workspace, client):
    def call(options, **spec):
        client.call(call_id="call-1", reject_options=options, **spec)
        settle()
        row = Transaction.objects.get()
        stored = SlackMessage.objects.get(transaction=row)
        return next(item for item in slack.messages if item.ts == stored.ts)

    return call


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({OFFERED: "1"}, "Not now, ask tomorrow"),
        (
            {OFFERED: "1", REASON: "She is away."},
            "Not now, ask tomorrow\nShe is away.",
        ),
    ],
)
def test_a_reason_that_the_agent_offers_can_be_chosen(
    slack,
    asked,
    served,
    slack_alice,
    client,
    values,
    reason,
):
    message = asked([LONG, *OPTIONS])
    slack.click(message, "reject", slack_alice)
    (modal,) = slack.modals
    shown = FakeSlack.plain(modal)
    assert "Never" in shown
    assert "x" * 75 not in shown

    slack.submit(modal, values, slack_alice)
    settle()

    status = client.poll("call-1")
    assert (status["approved"], status["comment"]) == (False, reason)
    assert status["reject_option_name"] == "later"


def test_without_a_choice_words_are_needed(slack, asked, served, slack_alice, client):
    message = asked(OPTIONS)
    slack.click(message, "reject", slack_alice)
    (modal,) = slack.modals

    answer = slack.submit(modal, {REASON: " "}, slack_alice)
    assert answer.json["errors"] == {"reason": "Say why: the agent reads it."}
    slack.submit(modal, {REASON: "Wrong address"}, slack_alice)
    settle()

    status = client.poll("call-1")
    assert (status["comment"], status["reject_option_name"]) == ("Wrong address", None)


def test_a_call_that_assent_carries_out_says_so_and_offers_its_reasons(
    slack,
    asked,
    served,
    slack_alice,
    client,
    acme,
    alice,
):
    bindings.bind(acme, None, "fly", "launch", by=alice, via="admin")

    message = asked(OPTIONS, fn="fly", kwargs={"rocket": "ariane"})

    assert "asked for as fly; Assent carries this out" in FakeSlack.plain(message)
    slack.click(message, "reject", slack_alice)
    slack.submit(slack.modals[0], {OFFERED: "1"}, slack_alice)
    settle()
    assert client.poll("call-1")["reject_option_name"] == "never"
