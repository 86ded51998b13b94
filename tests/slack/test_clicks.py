"""A decision in Slack: the message, the click, the one verb, the message again."""

from __future__ import annotations

import json
import threading
import time

import pytest

from approvals.models import Membership, Role, SlackIdentity, SlackMessage
from approvals.slack import buttons
from ledger import contracts, coordinator
from ledger.models import Decision, Event, Tenant, Transaction
from tests.slack.conftest import CHANNEL, linked, route, settle, state_of, thread_of
from tests.slack.fake import FakeSlack

pytestmark = pytest.mark.django_db(transaction=True)


def buttons_of(message):
    return [one["action_id"] for one in message.blocks[-1]["elements"]]


def whispered(slack):
    """What the one ephemeral message says."""
    (only,) = slack.ephemerals
    return only.text


# --- yes and no ------------------------------------------------------------------------------


def test_an_approval_in_slack_is_carried_out_and_the_message_says_so(
    slack, posted, served, slack_alice
):
    row, message = posted(amount="48.20")

    click = slack.click(message, "approve", slack_alice)
    settle()

    assert (click.status, click.body) == (200, "")
    assert state_of(row) == "committed"
    vote = Decision.objects.get()
    assert (vote.principal, vote.via) == ("user:alice", "slack")
    said = FakeSlack.plain(message)
    assert f"Approved by Alice Moreau in Slack\n · committed\n · receipt \n{row.receipt}" in said
    assert not slack.ephemerals
    assert buttons_of(message) == ["open"]
    assert thread_of(slack, message) == [
        "Approved\n by Alice Moreau in Slack", f"Committed\n · receipt \n{row.receipt}"
    ]  # fmt: skip


def test_a_rejection_needs_a_reason_that_the_agent_reads(slack, posted, served, slack_alice):
    row, message = posted()

    opened = slack.click(message, "reject", slack_alice)
    (modal,) = slack.modals
    closed = slack.submit(modal, {("reason", "reason"): "Paid already."}, slack_alice)
    settle()

    assert (opened.status, closed.status) == (200, 200)
    assert modal.is_closed
    assert state_of(row) == "aborted"
    assert (row.ending, row.ending_reason) == ("rejected", "Paid already.")
    said = FakeSlack.plain(message)
    assert "Rejected by Alice Moreau in Slack\n · nothing was done" in said
    assert "Paid already." in said
    assert buttons_of(message) == ["open"]
    assert thread_of(slack, message)[0].startswith("Rejected\n by Alice Moreau in Slack")


def test_a_blank_reason_is_refused_in_the_modal(slack, posted, served, slack_alice):
    row, message = posted()
    slack.click(message, "reject", slack_alice)
    (modal,) = slack.modals

    answer = slack.submit(modal, {("reason", "reason"): "   "}, slack_alice)
    settle()

    assert answer.json["errors"] == {"reason": "Say why: the agent reads it."}
    assert state_of(row) == "prepared"


def test_what_cannot_be_undone_has_to_be_typed(slack, posted, served, slack_alice):
    row, message = posted("launch", rocket="Ariane")
    slack.click(message, "approve", slack_alice)
    (modal,) = slack.modals
    assert "type \nAriane" in FakeSlack.plain(modal)

    wrong = slack.submit(modal, {("typed", "typed"): "Vega"}, slack_alice)
    settle()
    assert "Nothing was decided" in wrong.json["errors"]["typed"]
    assert state_of(row) == "prepared"

    slack.submit(modal, {("typed", "typed"): " ariane "}, slack_alice)
    settle()
    assert state_of(row) == "committed"


def test_the_modal_for_what_cannot_be_undone_repeats_the_amount(
    slack, posted, served, slack_alice, monkeypatch
):
    tool = contracts.tools["pay"]
    stricter = contracts.Contract(
        **{name: getattr(tool.contract, name) for name in tool.contract.__slots__}
        | {"consequence_level": contracts.ConsequenceLevel.IRREVERSIBLE}
    )
    monkeypatch.setattr(tool, "contract", stricter)
    _, message = posted(amount="4820.00")

    slack.click(message, "approve", slack_alice)

    assert "€4,820.00" in FakeSlack.plain(slack.modals[0])


def test_a_web_only_contract_is_linked_to_and_refused_even_if_clicked(
    slack, posted, served, slack_alice, monkeypatch
):
    row, message = posted()
    before = json.loads(json.dumps(message.blocks))
    tool = contracts.tools["pay"]
    stricter = contracts.Contract(
        **{name: getattr(tool.contract, name) for name in tool.contract.__slots__}
        | {"web_only": True}
    )
    monkeypatch.setattr(tool, "contract", stricter)

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "on the desk only" in whispered(slack)
    assert buttons_of(message) == ["open"]
    assert "Decide on the desk" in FakeSlack.plain(message)
    slack.click(message, "reject", slack_alice, as_of=before)
    slack.submit(slack.modals[0], {("reason", "reason"): "no"}, slack_alice)
    settle()
    assert state_of(row) == "prepared"


# --- who -------------------------------------------------------------------------------------


def test_a_stranger_is_told_why_and_nothing_changes(slack, posted, served, mallory):
    row, message = posted()
    before = message.text

    slack.click(message, "approve", mallory)
    settle()

    assert state_of(row) == "prepared"
    (only,) = slack.ephemerals
    assert only.user == mallory.id
    assert "does not know who you are" in only.text
    assert only.blocks[-1]["elements"][0]["url"].endswith("/slack/")
    assert message.text == before
    assert not Decision.objects.exists()


def test_permission_is_asked_at_the_click_and_not_before(slack, posted, served, slack_alice):
    row, message = posted()
    Membership.objects.filter(user__username="alice").update(role=Role.VIEWER)

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "You are not an approver of acme" in whispered(slack)


def test_a_closed_account_decides_nothing(slack, posted, served, slack_alice, alice_user):
    row, message = posted()
    alice_user.is_active = False
    alice_user.save()

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "does not know who you are" in whispered(slack)


def test_nobody_decides_on_what_they_proposed_themselves(
    slack, posted, served, slack_alice, monkeypatch
):
    row, message = posted()
    Transaction.objects.filter(pk=row.pk).update(proposed_by="user:alice")

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert whispered(slack).startswith("Nobody decides on what they proposed themselves.")


def test_the_same_user_id_of_another_company_is_somebody_else(
    slack, posted, served, slack_alice, team
):
    """In a channel shared with another workspace: ids are unique within a workspace only."""
    row, message = posted()
    elsewhere = slack.add_team("T0OTHER", "Other")
    guest = {"id": slack_alice.id, "username": "alice", "team_id": elsewhere.id}

    slack.click(message, "approve", slack_alice, body_override={"user": guest})
    settle()

    assert state_of(row) == "prepared"
    assert "does not know who you are" in whispered(slack)


def test_in_a_grid_the_workspace_is_the_bots_and_not_the_clickers(
    slack, posted, served, slack_alice, team
):
    """hermes-agent #100112: the team of an interaction may be the clicker's, or none at all."""
    row, message = posted()
    SlackIdentity.objects.update(home_team_id="T0GRID")
    user = {"id": slack_alice.id, "username": "alice", "team_id": "T0GRID"}

    slack.click(message, "approve", slack_alice, body_override={"team": None, "user": user})
    settle()

    assert state_of(row) == "committed"


def test_a_workspace_that_no_longer_serves_the_tenant_decides_nothing(
    slack, posted, served, slack_alice, workspace
):
    row, message = posted()
    workspace.tenants.clear()

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "does not serve acme any more" in whispered(slack)


# --- forged, replayed, late ------------------------------------------------------------------


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


def test_what_cannot_be_read_is_no_crash(slack, team, served, workspace):
    url = slack.interactivity_url
    for body in (b"payload=", b"payload=[]", b"payload={", b"payload=" + b"[" * 50_000, b"{}"):
        answer = slack.post_raw(url, body, signing_secret=team.signing_secret)
        assert answer.status == 400, body
    not_text = slack.post_raw(url, b"\xff\xfe", signing_secret="", signature="v0=00")
    assert not_text.status == 401


def test_without_slack_in_the_settings_there_is_no_door(client, db, settings):
    settings.SLACK_BOT_TOKENS = []
    assert client.post("/slack/interactions", {"payload": "{}"}).status_code == 404


def test_a_door_is_not_opened_by_a_get(client, team, db):
    assert client.get("/slack/interactions").status_code == 405


def test_a_button_says_nothing_that_is_good_elsewhere(slack, posted, served, slack_alice):
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
    changed, moved = [one.text for one in slack.ephemerals]
    assert "not valid any more" in changed
    assert "belongs into another channel" in moved


def test_a_button_from_before_a_change_of_keys_says_so(
    slack, posted, served, slack_alice, settings
):
    row, message = posted()
    settings.SECRET_KEY = "another key, since the first one has leaked"

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "not valid any more" in whispered(slack)


def test_the_subject_of_a_button_is_that_of_its_message(slack, posted, served, slack_alice):
    """A value that we signed, put together from two messages."""
    row, message = posted()
    other, _ = posted()
    press = buttons.read(message.blocks[-1]["elements"][0]["value"])
    mixed = buttons.Press(
        "approve", str(other.pk), other.intent_digest, press.team, press.copy
    ).signed()

    slack.click(
        message, "approve", slack_alice,
        body_override={"actions": [{"action_id": "approve", "value": mixed, "type": "button"}]},
    )  # fmt: skip
    settle()

    assert state_of(row) == state_of(other) == "prepared"
    assert "no such message" in whispered(slack)


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
        "type": "block_actions", "user": {"id": eve.id, "team_id": globex_team.id},
        "team": {"id": globex_team.id}, "trigger_id": "1.2.3",
        "container": {"type": "message", "channel_id": CHANNEL, "message_ts": message.ts},
        "actions": [{"action_id": "approve", "type": "button", "value": value}],
    }  # fmt: skip

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
    assert "not the one that was on the screen" in whispered(slack)


def test_a_late_click_is_told_what_became_and_the_stale_message_is_rewritten(
    slack, posted, served, slack_alice, bob
):
    row, message = posted()
    waiting = json.loads(json.dumps(message.blocks))
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="No.")

    slack.click(message, "approve", slack_alice, as_of=waiting)
    settle()

    assert state_of(row) == "aborted"
    assert "Bob Tanaka" in whispered(slack)
    assert whispered(slack).startswith("Rejected by Bob Tanaka")
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

    assert state_of(row) == "prepared"  # until the sweeper lets go of it
    assert "Its time was up" in whispered(slack)


# --- twice, and two at once ------------------------------------------------------------------


def test_a_double_click_is_one_decision(slack, posted, served, slack_alice):
    row, message = posted()
    blocks = json.loads(json.dumps(message.blocks))

    for _ in range(2):
        slack.click(message, "approve", slack_alice, as_of=blocks)
    settle()

    assert Decision.objects.count() == 1
    assert state_of(row) == "committed"
    assert whispered(slack).startswith("You had decided already. It is ")


def test_of_two_approvers_at_once_one_decides_and_the_other_hears_who(
    slack, posted, served, slack_alice, slack_bob
):
    row, message = posted()
    blocks = json.loads(json.dumps(message.blocks))

    clicks = [
        threading.Thread(
            target=slack.click, args=(message, "approve", who), kwargs={"as_of": blocks}
        )
        for who in (slack_alice, slack_bob)
    ]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    settle()

    vote = Decision.objects.get()
    assert state_of(row) == "committed"
    assert vote.principal_name in whispered(slack)
    loser = slack_bob if vote.principal == "user:alice" else slack_alice
    assert slack.ephemerals[0].user == loser.id


def test_approvals_on_the_desk_and_in_slack_make_a_quorum(
    slack, posted, served, slack_alice, as_bob
):
    row, message = posted("scuttle", rocket="Vega")
    slack.click(message, "approve", slack_alice)
    slack.submit(slack.modals[0], {("typed", "typed"): "Vega"}, slack_alice)
    settle()
    assert state_of(row) == "prepared"
    assert "Alice Moreau\n approved. 1 more needed." in FakeSlack.plain(message)
    assert buttons_of(message) == ["approve", "reject", "open"]

    as_bob.post(f"/transactions/{row.pk}/approve", {"digest": row.intent_digest, "typed": "Vega"})
    settle()

    assert state_of(row) == "committed"
    assert "Approved by Bob Tanaka on the desk" in FakeSlack.plain(message)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda row, bob: coordinator.approve(
            row.pk, digest=row.intent_digest, by=bob, via="web"), "Approved by Bob Tanaka on the"),
        (lambda row, bob: coordinator.reject(
            row.pk, digest=row.intent_digest, by=bob, via="web", reason="no"), "Rejected by Bob"),
        (lambda row, bob: coordinator.cancel(
            row.pk, by=__import__("ledger.principals").principals.Principal(
                *row.proposed_by.split(":"), "Helpdesk agent"), via="api"), "Canceled by Helpdesk"),
    ],
)  # fmt: skip
def test_every_copy_is_rewritten_whoever_decides_wherever(
    slack, workspace, slack_alice, a_transaction, bob, how, says
):
    """Two channels and a direct message."""
    slack.add_channel(slack_alice.team, "C0SECOND")
    route(workspace, channel="C0SECOND")
    route(workspace, approver_id=workspace.identities.get().user_id)
    row = a_transaction()
    settle()
    copies = [one for one in slack.messages if not one.thread_ts]
    assert len(copies) == SlackMessage.objects.count() == 3

    how(row, bob)
    settle()

    for message in copies:
        assert says in FakeSlack.plain(message)
        assert buttons_of(message) == ["open"]


def test_two_workspaces_each_see_their_own_tenant_only(
    slack, served, team, workspace, settings, globex, a_transaction, carol_user
):
    from io import StringIO

    from django.core.management import call_command

    other = slack.add_team("T0GLOBEX", "Globex", signing_secret="globex' own secret")
    slack.add_channel(other, "C0GLOBEX")
    settings.SLACK_BOT_TOKENS = [team.bot_token, other.bot_token]
    settings.SLACK_SIGNING_SECRETS = [team.signing_secret, other.signing_secret]
    call_command(
        "slack_connect", tenant="globex", team=other.id, channel="C0GLOBEX", stdout=StringIO()
    )
    globex_workspace = Tenant.objects.get(pk="globex").slack_workspaces.get()
    carol = linked(slack, other, globex_workspace, carol_user)

    ours = a_transaction()
    theirs = a_transaction("pay", tenant="globex")
    settle()

    assert {(one.team.id, one.channel) for one in slack.messages} == {
        ("T0ACME", CHANNEL), ("T0GLOBEX", "C0GLOBEX")
    }  # fmt: skip
    message = next(one for one in slack.messages if one.team is other)
    slack.click(message, "approve", carol)
    settle()
    assert (state_of(theirs), state_of(ours)) == ("committed", "prepared")
