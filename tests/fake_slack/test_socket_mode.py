"""Socket Mode, with the client of slack_sdk at the other end."""

from __future__ import annotations

import http.client
from contextlib import closing
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest

from tests.fake_slack import FakeSlack, SlackUser, Team
from tests.fake_slack.samples import actions, button, modal, opened


def connected(slack: FakeSlack, team: Team, listener: Any) -> Any:
    web = WebClient(base_url=slack.api_url)
    client = SocketModeClient(team.app_token, web_client=web, ping_interval=0.2, concurrency=2)
    client.socket_mode_request_listeners.append(listener)
    client.connect()
    return closing(client)


def acknowledge(client: Any, request: SocketModeRequest) -> None:
    is_form = request.payload.get("type") == "view_submission"
    errors = {"response_action": "errors", "errors": {"reason": "no"}}
    ack = {"envelope_id": request.envelope_id, **({"payload": errors} if is_form else {})}
    client.send_socket_mode_response(ack)


def test_socket_mode_carries_clicks_forms_and_commands_over_new_connections(
    slack: FakeSlack, team: Team, alice: SlackUser, client: WebClient
) -> None:
    slack.mode = "socket"
    client.chat_postMessage(channel="C0OPS", text="x", blocks=[actions(button())])
    assert slack.click(slack.messages[0], "approve", alice).status == 0, "nobody is connected"
    with connected(slack, team, acknowledge):
        slack.wait_for_socket()
        assert slack.click(slack.messages[0], "approve", alice).status == 200
        form = opened(slack, client, alice, modal())
        slack.submit(form, {("reason", "value"): "x"}, alice)
        assert form.errors == {"reason": "no"}
        slack.refresh_socket()
        slack.wait_for_socket()
        assert slack.command(alice).status == 200
        slack.drop_socket()
        slack.wait_for_socket()
        assert slack.open_home(alice).status == 200


def test_an_event_without_an_acknowledgement_comes_once_more(
    slack: FakeSlack, team: Team, alice: SlackUser
) -> None:
    slack.mode, slack.patience_s = "socket", 0.2
    attempts: list[int | None] = []

    def hear(client: Any, request: SocketModeRequest) -> None:
        attempts.append(request.retry_attempt)
        if request.retry_attempt:
            acknowledge(client, request)

    with connected(slack, team, hear):
        slack.wait_for_socket()
        reaction = slack.open_home(alice)
    assert (reaction.status, reaction.is_late, attempts) == (200, True, [0, 1])


def test_a_ticket_opens_one_connection(slack: FakeSlack, team: Team) -> None:
    url = WebClient(base_url=slack.api_url).apps_connections_open(app_token=team.app_token)["url"]
    path = url.removeprefix(slack.socket_url)
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    statuses = []
    for _ in range(2):
        host = slack.socket_url.removeprefix("ws://").strip("/")
        with closing(http.client.HTTPConnection(host, timeout=5)) as connection:
            connection.request("GET", f"/{path}", headers=headers)
            with connection.getresponse() as response:
                statuses.append(response.status)
    assert statuses == [101, 401]


def chat_with_a_chatter() -> None:
    def chatter(client: Any, request: SocketModeRequest) -> None:
        ack = {"envelope_id": request.envelope_id, "payload": {"text": "thanks"}}
        client.send_socket_mode_response(ack)

    with FakeSlack(mode="socket") as slack:
        team = slack.add_team()
        user = slack.add_user(team, "U0ALICE")
        with connected(slack, team, chatter):
            slack.wait_for_socket()
            slack.open_home(user)


def test_an_acknowledgement_that_slack_would_not_take_is_raised_at_the_end() -> None:
    with pytest.raises(AssertionError, match="accepts no payload"):
        chat_with_a_chatter()
