"""Clicks that are forged, replayed, moved elsewhere or late: nothing is decided, and it is said."""

from __future__ import annotations

import json
import time

import pytest

from approvals.slack.rendering import signed_values
from ledger.models import Decision, Event, Transaction
from ledger.transactions import coordinator
from tests.slack.conftest import CHANNEL, buttons_of, ephemeral_text, settle, state_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_slack_did_not_sign_is_refused(slack, posted, served, slack_alice):
    row, message = posted()

    answers = [
        slack.click(message, "approve", slack_alice, forged=True),
        slack.click(message, "approve", slack_alice, now=time.time() - 301),
        slack.click(message, "approve", slack_alice, now=time.time() + 310),
        slack.click(message, "approve", slack_alice, body_override=b"payload=%7B%7D"),
        slack.click(message, "approve", slack_alice, headers={"X-Slack-Signature": None}),
        slack.click(message, "approve", slack_alice, headers={"X-Slack-Signature": "v0=caf\xe9"}),
        slack.click(message, "approve", slack_alice, headers={"X-Slack-Request-Timestamp": "soon"}),
    ]
    settle()

    assert [answer.status for answer in answers] == [401] * 7
    assert state_of(row) == "prepared"


def test_malformed_requests_are_refused(slack, team, served, workspace):
    url = slack.interactivity_url
    for body in (b"payload=", b"payload=[]", b"payload={", b"payload=" + b"[" * 50_000, b"{}"):
        answer = slack.post_raw(url, body, signing_secret=team.signing_secret)
        assert answer.status == 400, body
    not_text = slack.post_raw(url, b"\xff\xfe", signing_secret="", signature="v0=00")
    assert not_text.status == 401


def test_without_slack_in_the_settings_its_addresses_do_not_exist(client, db, settings):
    settings.SLACK_BOT_TOKENS = []
    assert client.post("/slack/interactions", {"payload": "{}"}).status_code == 404


def test_slacks_addresses_take_no_get(client, team, db):
    assert client.get("/slack/interactions").status_code == 405


def test_the_value_of_a_button_is_valid_nowhere_else(slack, posted, served, slack_alice):
    """A value that was changed, or that was copied into another channel."""
    row, message = posted()
    value = message.blocks[-1]["elements"][0]["value"]
    slack.add_channel(message.team, "C0OTHER")
    tampered = value.replace(value[10], "A" if value[10] != "A" else "B", 1)

    for body in (
        {"actions": [{"action_id": "approve", "value": tampered, "type": "button"}]},
        {"container": {"channel_id": "C0OTHER", "message_ts": message.ts, "type": "message"}},
    ):
        slack.click(message, "approve", slack_alice, body_override=body)
        settle()

    assert state_of(row) == "prepared"
    changed, moved = [item.text for item in slack.ephemerals]
    assert "not valid any more" in changed
    assert "belongs to another channel" in moved


def test_a_button_from_before_a_change_of_keys_says_so(
    slack, posted, served, slack_alice, settings
):
    row, message = posted()
    settings.SECRET_KEY = "another key, since the first one has leaked"

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "not valid any more" in ephemeral_text(slack)


def test_the_subject_of_a_button_is_that_of_its_message(slack, posted, served, slack_alice):
    """A value that we signed, put together from two messages."""
    row, message = posted()
    other, _ = posted()
    press = signed_values.read_button(message.blocks[-1]["elements"][0]["value"])
    mixed = signed_values.ButtonValue(
        "approve", str(other.pk), other.intent_digest, press.team, press.message
    ).signed()

    slack.click(
        message,
        "approve",
        slack_alice,
        body_override={"actions": [{"action_id": "approve", "value": mixed, "type": "button"}]},
    )
    settle()

    assert state_of(row) == state_of(other) == "prepared"
    assert "no such message" in ephemeral_text(slack)


def test_a_button_of_one_workspace_is_not_good_in_the_name_of_another(
    slack, posted, served, slack_alice, settings, team, globex
):
    row, message = posted()
    globex_team = slack.add_team("T0GLOBEX", "Globex", signing_secret="globex' own secret")
    settings.SLACK_BOT_TOKENS = [team.bot_token, globex_team.bot_token]
    settings.SLACK_SIGNING_SECRETS = [team.signing_secret, globex_team.signing_secret]
    value = message.blocks[-1]["elements"][0]["value"]
    slack.add_channel(globex_team, CHANNEL)
    eve = slack.add_user(globex_team, slack_alice.id, name="eve")
    body = {
        "type": "block_actions",
        "user": {"id": eve.id, "team_id": globex_team.id},
        "team": {"id": globex_team.id},
        "trigger_id": "1.2.3",
        "container": {"type": "message", "channel_id": CHANNEL, "message_ts": message.ts},
        "actions": [{"action_id": "approve", "type": "button", "value": value}],
    }

    answer = slack.post_raw(
        slack.interactivity_url, _form(body), signing_secret=globex_team.signing_secret
    )
    settle()

    assert answer.status == 200
    assert state_of(row) == "prepared"


def _form(payload):
    from urllib.parse import urlencode

    return urlencode({"payload": json.dumps(payload)}).encode()


def test_a_captured_request_sent_again_changes_nothing(slack, posted, served, slack_alice):
    row, message = posted()
    first = slack.click(message, "approve", slack_alice)
    settle()

    again = slack.retry(first)
    settle()

    assert again.status == 200
    assert Decision.objects.count() == 1
    assert Event.objects.filter(subject=row.pk, kind="committed").count() == 1


def test_an_intent_that_has_changed_since_is_not_approved(slack, posted, served, slack_alice):
    row, message = posted()
    Transaction.objects.filter(pk=row.pk).update(intent_digest="0" * 64)

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "not the one that was on the screen" in ephemeral_text(slack)


def test_a_late_click_is_told_the_outcome_and_the_stale_message_is_updated(
    slack, posted, served, slack_alice, bob
):
    row, message = posted()
    waiting = json.loads(json.dumps(message.blocks))
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="No.")

    slack.click(message, "approve", slack_alice, as_of=waiting)
    settle()

    assert state_of(row) == "aborted"
    assert "Bob Tanaka" in ephemeral_text(slack)
    assert ephemeral_text(slack).startswith("Rejected by Bob Tanaka")
    assert buttons_of(message) == ["open"]


def test_a_click_after_the_time_is_up_is_told_so(slack, posted, served, slack_alice):
    from datetime import timedelta

    from django.db.models import F

    row, message = posted()
    hour = timedelta(hours=1)
    Transaction.objects.filter(pk=row.pk).update(
        created_at=F("created_at") - hour, expires_at=F("created_at") - hour / 2
    )

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"  # until the sweeper releases it
    assert "Its time was up" in ephemeral_text(slack)
