"""The fake Slack bites where the real one does: the Web API."""

from __future__ import annotations

import http.client
import time
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from tests.fake_slack import FakeSlack, SlackUser, Team, mentions
from tests.fake_slack.block_kit import message_problems, view_problems
from tests.fake_slack.fixtures import Clock
from tests.fake_slack.samples import (
    BAD_BLOCKS,
    BAD_VIEWS,
    GOOD_BLOCKS,
    actions,
    button,
    code,
    modal,
    mrkdwn,
    plain,
    refused,
)


def test_a_token_must_be_known_of_the_right_type_and_may_do_what_its_scopes_say(
    slack: FakeSlack, team: Team
) -> None:
    base = slack.api_url
    assert refused(WebClient(base_url=base).auth_test) == "not_authed"
    assert refused(WebClient("xoxb-no", base_url=base).auth_test) == "invalid_auth"
    app = WebClient(team.app_token, base_url=base)
    assert refused(app.chat_postMessage, channel="C0OPS", text="x") == "not_allowed_token_type"
    bot = WebClient(team.bot_token, base_url=base)
    assert refused(bot.apps_connections_open, app_token=team.bot_token) == "not_allowed_token_type"
    poor = slack.add_team("T0POOR", scopes=("users:read",))
    with pytest.raises(SlackApiError) as refusal:
        WebClient(poor.bot_token, base_url=base).chat_postMessage(channel="C0OPS", text="x")
    assert code(refusal) == "missing_scope"
    assert refusal.value.response["needed"] == "chat:write"
    assert refusal.value.response["provided"] == "users:read"


def test_auth_test_says_who_we_are_and_the_header_says_what_we_may(client: WebClient) -> None:
    answer = client.auth_test()
    assert (answer["team_id"], answer["user_id"]) == ("T0ACME", "U0BOT0ACME")
    assert "app_id" not in answer.data
    assert "chat:write" in answer.headers["x-oauth-scopes"].split(",")


def test_an_unknown_method_is_refused(client: WebClient) -> None:
    assert refused(client.api_call, api_method="chat.shout") == "unknown_method"


def test_a_message_needs_a_channel_with_us_in_it_and_something_to_say(
    slack: FakeSlack, team: Team, client: WebClient
) -> None:
    slack.add_channel(team, "C0OUT", has_bot=False)
    slack.add_channel(team, "C0OLD", is_archived=True)
    post = client.chat_postMessage
    assert refused(post, channel="C0NONE", text="x") == "channel_not_found"
    assert refused(post, channel="C0OUT", text="x") == "not_in_channel"
    assert refused(post, channel="C0OLD", text="x") == "is_archived"
    assert (
        refused(client.api_call, api_method="chat.postMessage", json={"channel": "C0OPS"})
        == "no_text"
    )
    assert refused(post, channel="C0OPS", text="x" * 40_001) == "msg_too_long"
    assert refused(post, channel="C0OPS", text="x", thread_ts="1.000000") == "thread_not_found"
    bad = {"event_type": "x", "event_payload": {"deep": {}}}
    assert refused(post, channel="C0OPS", text="x", metadata=bad) == "invalid_metadata_format"
    assert not slack.messages


def test_timestamps_of_messages_only_grow(
    slack: FakeSlack, client: WebClient, clock: Clock
) -> None:
    first = client.chat_postMessage(channel="C0OPS", text="1")["ts"]
    clock.ahead = -60
    second = client.chat_postMessage(channel="C0OPS", text="2")["ts"]
    assert first < second
    assert [len(part) for part in second.split(".")] == [10, 6]


def test_a_message_to_a_person_lands_in_direct_messages(
    slack: FakeSlack, alice: SlackUser, client: WebClient
) -> None:
    sent = client.chat_postMessage(channel=alice.id, text="psst")
    assert (
        sent["channel"] == "D0ALICE" == client.conversations_open(users=alice.id)["channel"]["id"]
    )
    update = client.chat_update
    assert refused(update, channel=alice.id, ts=sent["ts"], text="x") == "channel_not_found"
    update(channel="D0ALICE", ts=sent["ts"], text="still here")
    assert slack.messages[0].edits == [("psst", [])]


def test_only_our_own_messages_can_be_changed(
    slack: FakeSlack, team: Team, alice: SlackUser, client: WebClient
) -> None:
    theirs = slack.say(team, "C0OPS", alice.id, "hello")
    update, delete = client.chat_update, client.chat_delete
    assert refused(update, channel="C0OPS", ts=theirs.ts, text="x") == "cant_update_message"
    assert refused(delete, channel="C0OPS", ts=theirs.ts) == "cant_delete_message"
    assert refused(update, channel="C0OPS", ts="1.000000", text="x") == "message_not_found"
    ours = client.chat_postMessage(channel="C0OPS", text="mine", blocks=[mrkdwn("mine")])
    message = slack.messages[-1]
    update(channel="C0OPS", ts=ours["ts"], text="new")
    assert message.blocks, "blocks stay when they are not said anew"
    update(channel="C0OPS", ts=ours["ts"], text="new", blocks=[])
    assert not message.blocks
    delete(channel="C0OPS", ts=ours["ts"])
    assert message.is_deleted
    assert slack.messages == [theirs]


def test_history_is_newest_first_and_shows_metadata_when_asked(
    slack: FakeSlack, client: WebClient
) -> None:
    about = {"event_type": "assent", "event_payload": {"id": "7"}}
    first = client.chat_postMessage(channel="C0OPS", text="1", metadata=about)["ts"]
    client.chat_postMessage(channel="C0OPS", text="in thread", thread_ts=first)
    second = client.chat_postMessage(channel="C0OPS", text="2")["ts"]
    history = client.conversations_history(channel="C0OPS")["messages"]
    assert [one["ts"] for one in history] == [second, first]
    assert "metadata" not in history[1]
    old = client.conversations_history(
        channel="C0OPS", latest=second, include_all_metadata=True, limit=1
    )
    assert [one["metadata"] for one in old["messages"]] == [about]
    assert not old["has_more"]
    assert client.conversations_history(channel="C0OPS", limit=1)["has_more"]
    replies = client.conversations_replies(channel="C0OPS", ts=first)["messages"]
    assert [one["text"] for one in replies] == ["1", "in thread"]


def test_ephemerals_need_a_member(
    slack: FakeSlack, team: Team, alice: SlackUser, client: WebClient
) -> None:
    slack.add_channel(team, "C0FEW", members={"U0BOB"})
    whisper = client.chat_postEphemeral
    assert refused(whisper, channel="C0FEW", user=alice.id, text="x") == "user_not_in_channel"
    whisper(channel="C0OPS", user=alice.id, text="only you")
    assert slack.ephemerals[0].user == alice.id


def test_people_are_found_by_id_and_address(alice: SlackUser, client: WebClient) -> None:
    assert client.users_lookupByEmail(email="alice@acme.example")["user"]["id"] == alice.id
    assert refused(client.users_lookupByEmail, email="no@acme.example") == "users_not_found"
    assert client.users_info(user=alice.id)["user"]["profile"]["email"] == "alice@acme.example"
    assert refused(client.users_info, user="U0NONE") == "user_not_found"
    assert client.conversations_info(channel="C0OPS")["channel"]["is_member"]


def test_bursts_are_refused_when_asked_for(
    slack: FakeSlack, client: WebClient, clock: Clock
) -> None:
    slack.limits_posts = 1
    client.chat_postMessage(channel="C0OPS", text="1")
    with pytest.raises(SlackApiError) as refusal:
        client.chat_postMessage(channel="C0OPS", text="2")
    assert refusal.value.response.status_code == 429
    assert refusal.value.response.headers["Retry-After"] == "1"
    clock.ahead = 1.1
    client.chat_postMessage(channel="C0OPS", text="2")


def test_a_trigger_is_good_once_and_for_three_seconds(
    slack: FakeSlack, team: Team, alice: SlackUser, client: WebClient, clock: Clock
) -> None:
    first, late = (slack.issue_trigger(team, alice.id) for _ in range(2))
    assert refused(client.views_open, trigger_id="1.2.3", view=modal()) == "invalid_trigger_id"
    other = slack.add_team("T0OTHER")
    stranger = WebClient(other.bot_token, base_url=slack.api_url)
    assert refused(stranger.views_open, trigger_id=first, view=modal()) == "invalid_trigger_id"
    client.views_open(trigger_id=first, view=modal())
    assert refused(client.views_open, trigger_id=first, view=modal()) == "exchanged_trigger_id"
    clock.ahead = 3.1
    assert refused(client.views_open, trigger_id=late, view=modal()) == "expired_trigger_id"
    assert [one.user for one in slack.modals] == [alice.id]


def test_views_are_updated_by_id_and_hash(
    slack: FakeSlack, team: Team, alice: SlackUser, client: WebClient
) -> None:
    trigger = slack.issue_trigger(team, alice.id)
    view = client.views_open(trigger_id=trigger, view=modal(external_id="mine"))["view"]
    update = client.views_update
    assert refused(update, view_id="V0NONE", view=modal()) == "not_found"
    assert refused(update, view_id=view["id"], view=modal(), hash="old") == "hash_conflict"
    update(external_id="mine", view=modal(external_id="mine"), hash=view["hash"])
    assert len(slack.modals[0].versions) == 2
    assert refused(update, view_id=view["id"], view=modal(), hash=view["hash"]) == "hash_conflict"


def test_a_home_is_published_to_a_person_of_the_team(
    slack: FakeSlack, alice: SlackUser, client: WebClient
) -> None:
    home = {"type": "home", "blocks": [mrkdwn("Welcome")]}
    assert refused(client.views_publish, user_id="U0NONE", view=home) == "user_not_found"
    assert refused(client.views_publish, user_id=alice.id, view=modal()) == "invalid_arguments"
    client.views_publish(user_id=alice.id, view=home)
    assert slack.plain(slack.homes[alice.id]) == "Welcome"


@pytest.mark.parametrize("blocks", GOOD_BLOCKS)
def test_good_blocks_are_posted(blocks: list[dict[str, Any]], client: WebClient) -> None:
    client.chat_postMessage(channel="C0OPS", text="x", blocks=blocks)


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_bad_blocks_are_refused(name: str) -> None:
    assert message_problems(BAD_BLOCKS[name])


@pytest.mark.parametrize("name", BAD_VIEWS)
def test_bad_views_are_refused(name: str) -> None:
    assert view_problems(BAD_VIEWS[name])


def test_a_refusal_says_where(slack: FakeSlack, client: WebClient) -> None:
    with pytest.raises(SlackApiError) as refusal:
        client.chat_postMessage(channel="C0OPS", text="x", blocks=BAD_BLOCKS["long button"])
    assert code(refusal) == "invalid_blocks"
    assert refusal.value.response["response_metadata"]["messages"] == [
        "[ERROR] must be less than 76 characters [json-pointer:/blocks/0/elements/0/text/text]"
    ]


def test_slack_can_be_slow_broken_and_cut_off(slack: FakeSlack, client: WebClient) -> None:
    def post() -> Any:
        return client.chat_postMessage(channel="C0OPS", text="x")

    slack.fail("chat.postMessage", status=429, retry_after_s=7)
    with pytest.raises(SlackApiError) as refusal:
        post()
    assert refusal.value.response.headers["Retry-After"] == "7"
    assert code(refusal) == "ratelimited"
    slack.fail("*", error="internal_error")
    assert refused(post) == "internal_error"
    slack.fail("chat.postMessage")
    with pytest.raises(SlackApiError, match="non-JSON"):
        post()
    slack.fail("chat.postMessage", drop="before")
    with pytest.raises(http.client.RemoteDisconnected):
        post()
    assert not slack.messages
    slack.fail("chat.postMessage", drop="after")
    with pytest.raises(http.client.RemoteDisconnected):
        post()
    assert len(slack.messages) == 1
    slack.fail("chat.postMessage", delay_s=0.1)
    start = time.monotonic()
    post()
    assert time.monotonic() - start >= 0.1
    slack.fail("*", times=99)
    slack.heal()
    post()
    assert [one.status for one in slack.calls] == [429, 200, 500, 0, 0, 200, 200]


def test_what_a_reader_would_see_and_whom_it_calls(slack: FakeSlack, client: WebClient) -> None:
    assert mentions("<@U1> <!here> <!subteam^S1> <#C1> &lt;@U2&gt; a@b.example") == [
        "<@U1>",
        "<!here>",
        "<!subteam^S1>",
        "<#C1>",
    ]
    client.chat_postMessage(
        channel="C0OPS",
        text="fallback for <!channel>",
        blocks=[
            mrkdwn("1 &lt; 2 @here https://a.example <https://b.example|b>"),
            mrkdwn("&lt;@U1&gt; @here https://c.example", verbatim=True),
            {"type": "section", "text": plain("<@U2> @here")},
            actions(button(url="https://d.example")),
        ],
    )
    message = slack.messages[0]
    assert slack.mentions_in(message) == ["<!channel>", "@here"]
    assert slack.links_in(message) == ["https://b.example", "https://a.example"]
    assert slack.plain(message).splitlines() == [
        "1 < 2 @here https://a.example b",
        "<@U1> @here https://c.example",
        "<@U2> @here",
        "Approve",
    ]


def test_waiting_ends_with_what_was_heard(slack: FakeSlack, client: WebClient) -> None:
    client.auth_test()
    with pytest.raises(AssertionError, match=r"auth\.test 200"):
        slack.wait_for(lambda: slack.messages, seconds=0.05)
