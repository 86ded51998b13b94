"""People stop in Slack, from a card and by a command, see what stands still, and let it go on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from approvals.models import Membership, SlackMessage
from approvals.slack.api import slack_apps
from approvals.slack.interactions import stops
from approvals.slack.interactions.command_queue import Claim
from approvals.slack.interactions.commands import Click, Source
from approvals.slack.messages import channel
from approvals.slack.rendering import ButtonValue, modals
from ledger.events import brakes
from ledger.events.brakes import Scope
from ledger.models import Brake, Delivery, Event
from ledger.principals import Surface
from tests.brakes.conftest import SERVER, WHY
from tests.fake_slack import FakeSlack
from tests.slack.conftest import buttons_of, ephemeral_text, linked, settle, state_of

pytestmark = pytest.mark.django_db(transaction=True)
HELPDESK = "agent:acme/helpdesk"
WHAT, LASTS, REASON = (name and (name, "answer") for name in ("what", "lasts", "why"))


def stopped_on_server(tenant: str, why: str = WHY, **scope: str) -> None:
    brakes.put(Scope(tenant, **scope), why, by=SERVER, via=Surface.COMMAND)


def labels(modal: Any, block: str = "what") -> dict[str, str]:
    """What can be chosen there: the values by their labels."""
    (held,) = (one for one in modal.view["blocks"] if one.get("block_id") == block)
    return {one["text"]["text"]: one["value"] for one in held["element"]["options"]}


@pytest.fixture
def slack_olga(slack, team, workspace, olga_user):
    return linked(slack, team, workspace, olga_user)


@pytest.fixture
def form(slack, served):
    """The form that opens for a click on this message, or for a command."""

    def open_it(user, message=None, text="stop"):
        opened = slack.click(message, "stop", user) if message else slack.command(user, text)
        assert (opened.status, opened.body) == (200, "")
        settle()
        return slack.modals[-1]

    return open_it


def test_a_manager_stops_the_agent_of_a_card_and_the_card_cannot_be_approved(
    slack, posted, served, form, slack_alice, alice
):
    row, message = posted()
    as_of = [dict(block) for block in message.blocks]
    modal = form(slack_alice, message)
    assert list(labels(modal)) == ["agent helpdesk", "tool “Pay”", "helpdesk with Pay"]

    answer = slack.submit(modal, {REASON: WHY}, slack_alice)
    settle()

    assert (answer.status, modal.is_closed) == (200, True)
    brake = Brake.objects.get()
    assert (brake.tenant, brake.agent, brake.tool, brake.why) == ("acme", HELPDESK, "", WHY)
    assert (brake.by, brake.until - brake.at) == (str(alice), timedelta(minutes=15))
    assert Event.objects.get(kind="brake_put").via == "slack"
    assert "agent helpdesk: Stopped: nothing of it begins any more." in ephemeral_text(slack)
    assert f"Stopped by Alice Moreau until {brake.until:%Y-%m-%d %H:%M} UTC: {WHY}" in (
        FakeSlack.plain(message)
    )
    assert buttons_of(message) == ["reject", "more", "open", "stop"]
    slack.click(message, "approve", slack_alice, as_of=as_of)
    settle()
    assert state_of(row) == "prepared"
    assert WHY in slack.ephemerals[-1].text


def test_a_command_names_an_agent_or_a_tool(
    slack, posted, form, slack_alice, slack_olga, helpdesk, stranger
):
    posted()
    assert list(labels(form(slack_alice, text="stop helpdesk"))) == ["agent helpdesk"]
    assert list(labels(form(slack_alice, text="Stop pay"))) == ["tool “Pay”"]
    assert list(labels(form(slack_olga))) == ["agent helpdesk", "everything of acme"]

    unknown = form(slack_alice, text="stop nothing")

    told = "There is neither an agent nor a tool nothing that you could stop."
    assert told in FakeSlack.plain(unknown)


def test_an_operator_stops_the_organisation_by_a_command(slack, form, slack_olga, helpdesk):
    modal = form(slack_olga)
    everything = labels(modal)["everything of acme"]
    values = {WHAT: everything, LASTS: "no_end", REASON: WHY}

    slack.submit(modal, values, slack_olga)
    settle()

    brake = Brake.objects.get()
    assert (brake.tenant, brake.agent, brake.until) == ("acme", "", None)
    assert "everything of acme: Stopped" in slack.messages[-1].text


def test_who_may_not_is_told_in_the_form(slack, posted, form, slack_alice, mallory):
    _, message = posted()
    modal = form(slack_alice, message)
    Membership.objects.filter(user__username="alice").update(role="viewer")

    late = slack.submit(modal, {REASON: WHY}, slack_alice)
    refused = form(slack_alice, message)
    strange = form(mallory, message)

    assert late.json["errors"] == {
        "what": "Managers stop agents and tools, operators also the rest."
    }
    assert "Managers stop agents and tools" in FakeSlack.plain(refused)
    assert "does not know who you are" in FakeSlack.plain(strange)
    assert not Brake.objects.exists()


def test_a_scope_that_was_not_offered_stops_nothing(slack, posted, form, slack_alice, slack_olga):
    """The choice of an operator's form, sent by a manager."""
    _, message = posted()
    everything = labels(form(slack_olga, message))["everything of acme"]
    modal = form(slack_alice, message)
    taken = {"type": "radio_buttons", "selected_option": {"value": everything}}

    answer = slack.submit(modal, {WHAT: taken, REASON: WHY}, slack_alice)
    settle()

    assert "what" in answer.json["errors"]
    assert not Brake.objects.exists()


@pytest.mark.parametrize("why", ["   ", "a\u202eb"])
def test_a_reason_is_needed_that_people_can_read(slack, posted, form, slack_alice, why):
    _, message = posted()

    answer = slack.submit(form(slack_alice, message), {REASON: why}, slack_alice)

    assert list(answer.json["errors"]) == ["why"]
    assert not Brake.objects.exists()


def test_home_shows_what_stands_still_and_who_may_lets_it_go_on(
    slack,
    posted,
    served,
    slack_alice,
    slack_bob,
    slack_olga,
):
    _, message = posted()
    stopped_on_server("acme", agent=HELPDESK)
    stopped_on_server("globex", why="Not yours.")
    settle()
    assert "approve" not in buttons_of(message)

    slack.open_home(slack_bob)
    slack.open_home(slack_olga)
    settle()

    for person, may in ((slack_bob, False), (slack_olga, True)):
        home = slack.homes[person.id]
        shown = FakeSlack.plain(home)
        assert "Stopped: agent helpdesk" in shown
        assert WHY in shown
        assert "olga on the server" in shown
        assert "Not yours." not in shown
        assert ("Let it go on" in shown) is may
    slack.click(slack.homes[slack_olga.id], "lift", slack_olga)
    settle()
    assert not Brake.objects.standing().filter(tenant="acme").exists()
    assert "agent helpdesk: It goes on." in slack.messages[-1].text
    assert "Stopped" not in FakeSlack.plain(slack.homes[slack_olga.id])
    assert "approve" in buttons_of(message)


def test_a_button_of_another_that_lifts_does_nothing_for_who_may_not(
    slack,
    workspace,
    served,
    slack_bob,
    slack_olga,
):
    stopped_on_server("acme", agent=HELPDESK)
    slack.open_home(slack_olga)
    settle()
    blocks = slack.homes[slack_olga.id]["blocks"]
    slack.open_home(slack_bob)
    settle()

    slack.click(slack.homes[slack_bob.id], "lift", slack_bob, as_of=blocks)
    settle()

    assert Brake.objects.standing().exists()
    assert "Who stopped it lets it go on, or an operator." in slack.messages[-1].text


def test_the_newest_messages_of_what_stops_are_brought_up_to_date_and_no_more(
    slack,
    posted,
    monkeypatch,
):
    monkeypatch.setattr(channel, "MOST_OF_STOP", 2)
    monkeypatch.setattr(channel, "AT_ONCE_OF_STOP", 0)
    messages = [posted()[1] for _ in range(3)]

    stopped_on_server("acme", tool="pay")
    settle()

    owed = Delivery.objects.filter(event__kind="brake_put", channel="slack").exclude(recipient="")
    assert {each.recipient for each in owed} == {
        f"copy:{pk}" for pk in SlackMessage.objects.order_by("-pk").values_list("pk", flat=True)[:2]
    }
    oldest, _, newest = ["approve" in buttons_of(message) for message in messages]
    assert (oldest, newest) == (True, False)  # the one between is due a second later


def test_a_stop_that_is_sent_again_stops_once(slack, posted, form, slack_alice):
    _, message = posted()
    done = slack.submit(form(slack_alice, message), {REASON: WHY}, slack_alice)
    settle()

    slack.retry(done)
    settle()

    assert Brake.objects.count() == 1


def test_an_attempt_after_one_that_was_cut_off_stops_nothing_twice(
    team, workspace, slack_olga, helpdesk
):
    source = Source([slack_apps()[0].fingerprint], team.id, slack_olga.id, home_team=team.id)
    chosen = {"selected_option": {"value": modals.key_of(Scope("acme", HELPDESK))}}
    lasting, why = {"selected_option": {"value": "900"}}, {"value": WHY}
    inputs = {"what": {"answer": chosen}, "lasts": {"answer": lasting}, "why": {"answer": why}}
    button = ButtonValue("stop", "helpdesk", "", team.id, 0)
    first = Claim(Click(source=source, button=button, inputs=inputs), 1, timezone.now())

    told = [stops.act(first), stops.act(replace(first, tries=2))]

    assert told == ["agent helpdesk: Stopped: nothing of it begins any more."] * 2
    assert Brake.objects.count() == 1
