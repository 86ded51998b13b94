"""What people do reaches the product as Slack would send it, or not at all."""

from __future__ import annotations

import json
import threading
import time
from typing import Any
from urllib.parse import parse_qs

import pytest
from slack_sdk import WebClient
from slack_sdk.signature import SignatureVerifier

from tests.fake_slack import FakeSlack, SlackUser, Team
from tests.fake_slack.listener import Listener
from tests.fake_slack.samples import (
    BAD_VIEWS,
    actions,
    asked,
    button,
    modal,
    opened,
    options,
    plain,
)


def test_a_click_is_signed_and_tells_what_was_clicked(
    slack: FakeSlack, team: Team, alice: SlackUser, client: WebClient, desk: Listener
) -> None:
    client.chat_postMessage(channel="C0OPS", text="x", blocks=[actions(button(value="7"))])
    reaction = slack.click(slack.messages[0], "approve", alice)
    assert (reaction.status, reaction.is_late) == (200, False)
    request = desk.requests[0]
    assert SignatureVerifier(team.signing_secret).is_valid_request(request.body, request.headers)
    payload = json.loads(parse_qs(request.body.decode())["payload"][0])
    assert payload["actions"][0]["value"] == "7"
    assert payload["container"]["message_ts"] == slack.messages[0].ts
    client.views_open(trigger_id=payload["trigger_id"], view=modal())
    with pytest.raises(AssertionError, match="there is no"):
        slack.click(slack.messages[0], "reject", alice)


def test_a_stale_click_finds_the_older_button(
    slack: FakeSlack, alice: SlackUser, client: WebClient, desk: Listener
) -> None:
    sent = client.chat_postMessage(channel="C0OPS", text="x", blocks=[actions(button())])
    client.chat_update(channel="C0OPS", ts=sent["ts"], text="done", blocks=[])
    message = slack.messages[0]
    with pytest.raises(AssertionError, match="there is no"):
        slack.click(message, "approve", alice)
    assert slack.click(message, "approve", alice, as_of=message.edits[0][1]).status == 200


def test_forgeries_and_changed_bodies_do_not_verify_and_retries_do(
    slack: FakeSlack, team: Team, alice: SlackUser, desk: Listener
) -> None:
    verifier = SignatureVerifier(team.signing_secret)

    def verify(request: Any) -> tuple[int, str]:
        is_valid = verifier.is_valid_request(request.body, request.headers)
        return (200 if is_valid else 401), ""

    desk.answer = verify
    first = slack.command(alice, "status")
    assert first.status == 200
    assert slack.command(alice, "status", forged=True).status == 401
    assert slack.command(alice, "status", body_override=b"command=/other").status == 401
    assert slack.command(alice, "status", now=time.time() - 301).status == 401
    assert slack.command(alice, "status", headers={"X-Slack-Signature": None}).status == 401
    assert slack.retry(first).status == 200
    assert desk.requests[-1].headers["X-Slack-Retry-Num"] == "1"
    assert desk.requests[-1].body == desk.requests[0].body
    raw = slack.post_raw(desk.url, b"{}", signing_secret=team.signing_secret)
    assert raw.status == 200


def test_events_and_the_check_of_the_url(
    slack: FakeSlack, team: Team, alice: SlackUser, desk: Listener
) -> None:
    desk.answer = lambda request: (200, json.loads(request.body).get("challenge", ""))
    assert slack.url_verification("abc").body == "abc"
    assert slack.open_home(alice, team).status == 200
    event = json.loads(desk.requests[-1].body)
    assert event["event"]["type"] == "app_home_opened"
    assert event["authorizations"][0]["team_id"] == "T0ACME"


def test_a_form_goes_out_only_when_the_client_would_let_it(
    slack: FakeSlack, alice: SlackUser, client: WebClient, desk: Listener
) -> None:
    form = opened(
        slack,
        client,
        alice,
        modal(
            asked("why", {"type": "plain_text_input", "min_length": 3, "max_length": 5}),
            asked("sum", {"type": "number_input", "is_decimal_allowed": False, "max_value": "9"}),
            asked("pick", {"type": "static_select", "options": options("a", "b")}, optional=True),
            asked("some", {"type": "checkboxes", "options": options("a", "b")}, optional=True),
        ),
    )
    why, total = ("why", "value"), ("sum", "value")
    for values, reason in [
        ({why: "fine"}, "required"),
        ({why: "xx", total: "1"}, "3 to 5"),
        ({why: "fine", total: "1.5"}, "decimal"),
        ({why: "fine", total: "10"}, "too big"),
        ({why: "fine", total: "1", ("pick", "value"): "c"}, "not an option"),
        ({why: "fine", total: "1", ("other", "value"): "c"}, "no element"),
    ]:
        with pytest.raises(AssertionError, match=reason):
            slack.submit(form, values, alice)
    slack.submit(form, {why: "fine", total: "1", ("some", "value"): ["b"]}, alice)
    payload = json.loads(parse_qs(desk.requests[0].body.decode())["payload"][0])
    state = payload["view"]["state"]["values"]
    assert state["why"]["value"] == {"type": "plain_text_input", "value": "fine"}
    assert state["pick"]["value"] == {"type": "static_select", "selected_option": None}
    assert state["some"]["value"]["selected_options"] == options("b")
    assert form.is_closed


def test_the_answer_to_a_form_must_be_one_that_slack_understands(
    slack: FakeSlack, alice: SlackUser, client: WebClient, desk: Listener
) -> None:
    form = opened(slack, client, alice, modal())
    values = {("reason", "value"): "because"}

    def submit(answer: Any) -> None:
        desk.answer = lambda request: (200, json.dumps(answer))
        slack.submit(form, values, alice)

    submit({"response_action": "errors", "errors": {"reason": "too short"}})
    assert form.errors == {"reason": "too short"}
    for answer, reason in [
        ({"ok": True}, "understands no such"),
        ({"response_action": "errors", "errors": {"other": "x"}}, "not an input block"),
        ({"response_action": "update", "view": BAD_VIEWS["long title"]}, "refuses the view"),
    ]:
        with pytest.raises(AssertionError, match=reason):
            submit(answer)
    submit({"response_action": "update", "view": modal(title=plain("Again"))})
    assert form.view["title"]["text"] == "Again"
    submit({"response_action": "push", "view": modal(title=plain("More"))})
    assert slack.modals[-1].root is form
    submit({"response_action": "clear"})
    assert all(one.is_closed for one in slack.modals)


def test_a_late_answer_is_trouble_and_is_ignored(
    slack: FakeSlack, alice: SlackUser, client: WebClient, desk: Listener
) -> None:
    form = opened(slack, client, alice, modal())
    slack.patience_s = 0.1

    def dawdle(request: object) -> tuple[int, str]:
        threading.Event().wait(0.3)
        return 200, ""

    desk.answer = dawdle
    reaction = slack.submit(form, {("reason", "value"): "because"}, alice)
    assert reaction.is_late
    assert form.shows_trouble
    assert not form.is_closed


def test_closing_is_told_only_when_asked_for(
    slack: FakeSlack, alice: SlackUser, client: WebClient, desk: Listener
) -> None:
    slack.close(opened(slack, client, alice, modal()), alice)
    assert not desk.requests
    slack.close(opened(slack, client, alice, modal(notify_on_close=True)), alice)
    assert b"view_closed" in desk.requests[0].body


def test_a_command_may_be_answered_at_once_or_by_its_response_url(
    slack: FakeSlack, team: Team, alice: SlackUser, desk: Listener
) -> None:
    desk.answer = lambda request: (200, json.dumps({"text": "Nothing waits."}))
    slack.command(alice, channel="C0OPS")
    assert slack.ephemerals[0].text == "Nothing waits."
    fields = parse_qs(desk.requests[0].body.decode())
    url = fields["response_url"][0]
    raw = slack.post_raw(url, b'{"text": "later"}', signing_secret=team.signing_secret)
    assert raw.json == {"ok": True}
    assert [one.body["text"] for one in slack.response_url_uses] == ["later"]
