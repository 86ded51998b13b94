"""A decision in Slack: the message, the click, the one verb, the message again."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from approvals.models import Membership, Role, SlackIdentity, SlackMessage
from ledger import contracts
from ledger.models import Decision, Tenant, Transaction
from ledger.transactions import coordinator
from tests.fake_slack import FakeSlack
from tests.slack.conftest import (
    CHANNEL,
    buttons_of,
    ephemeral_text,
    linked,
    route,
    settle,
    state_of,
    thread_of,
)

pytestmark = pytest.mark.django_db(transaction=True)


# --- yes and no ------------------------------------------------------------------------------


def test_an_approval_in_slack_is_carried_out_and_the_message_says_so(
    slack, posted, served, slack_alice, alice
):
    row, message = posted(amount="48.20")

    click = slack.click(message, "approve", slack_alice)
    settle()

    assert (click.status, click.body) == (200, "")
    assert state_of(row) == "committed"
    vote = Decision.objects.get()
    assert (vote.principal, vote.via) == (str(alice), "slack")
    shown_text = FakeSlack.plain(message)
    assert f"Approved by Alice Moreau in Slack\n · done\n · receipt \n{row.receipt}" in shown_text
    assert not slack.ephemerals
    assert buttons_of(message) == ["open"]
    assert thread_of(slack, message) == [
        "Approved\n by Alice Moreau in Slack",
        f"Done\n · receipt \n{row.receipt}",
    ]


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
    shown_text = FakeSlack.plain(message)
    assert "Rejected by Alice Moreau in Slack\n · ended without any effect" in shown_text
    assert "Paid already." in shown_text
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
    stricter = replace(tool.contract, consequence_level=contracts.ConsequenceLevel.IRREVERSIBLE)
    monkeypatch.setattr(tool, "contract", stricter)
    _, message = posted(amount="4820.00")

    slack.click(message, "approve", slack_alice)

    assert "€4,820.00" in FakeSlack.plain(slack.modals[0])


def test_what_is_signed_with_a_passkey_is_opened_on_the_desk(slack, posted, monkeypatch):
    tool = contracts.tools["pay"]
    monkeypatch.setattr(tool, "contract", replace(tool.contract, strength="passkey"))

    _, message = posted()

    assert buttons_of(message) == ["open", "stop"]
    assert "Open to sign" in FakeSlack.plain(message)


def test_a_web_only_contract_is_linked_to_and_refused_even_if_clicked(
    slack, posted, served, slack_alice, monkeypatch
):
    row, message = posted()
    before = json.loads(json.dumps(message.blocks))
    tool = contracts.tools["pay"]
    stricter = replace(tool.contract, web_only=True)
    monkeypatch.setattr(tool, "contract", stricter)

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "on the desk only" in ephemeral_text(slack)
    assert buttons_of(message) == ["open", "stop"]
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
    assert "Only a manager of acme may decide" in ephemeral_text(slack)


def test_a_closed_account_decides_nothing(slack, posted, served, slack_alice, alice_user):
    row, message = posted()
    alice_user.is_active = False
    alice_user.save()

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert "does not know who you are" in ephemeral_text(slack)


def test_nobody_decides_on_what_they_proposed_themselves(
    slack, posted, served, slack_alice, monkeypatch, alice
):
    row, message = posted()
    Transaction.objects.filter(pk=row.pk).update(proposed_by=str(alice))

    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "prepared"
    assert ephemeral_text(slack).startswith(
        "Nobody may decide on a transaction that they proposed."
    )


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
    assert "does not know who you are" in ephemeral_text(slack)


def test_a_click_without_the_home_workspace_of_the_person_decides_nothing(
    slack, posted, served, slack_alice
):
    row, message = posted()
    nowhere = {"team": None, "user": {"id": slack_alice.id, "team_id": None}}

    slack.click(message, "approve", slack_alice, body_override=nowhere)
    settle()

    assert state_of(row) == "prepared"


def test_in_an_enterprise_grid_the_workspace_is_that_of_the_bot(
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
    assert "does not serve acme any more" in ephemeral_text(slack)


# --- twice, and two at once ------------------------------------------------------------------


def test_a_double_click_is_one_decision(slack, posted, served, slack_alice):
    row, message = posted()
    blocks = json.loads(json.dumps(message.blocks))

    for _ in range(2):
        slack.click(message, "approve", slack_alice, as_of=blocks)
    settle()

    assert Decision.objects.count() == 1
    assert state_of(row) == "committed"
    assert ephemeral_text(slack).startswith("You had decided already. It is ")


def test_of_two_approvers_at_once_one_decides_and_the_other_is_told_who(
    slack, posted, served, slack_alice, slack_bob, alice
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
    assert vote.principal_name in ephemeral_text(slack)
    loser = slack_bob if vote.principal == str(alice) else slack_alice
    assert slack.ephemerals[0].user == loser.id


def test_approvals_on_the_desk_and_in_slack_make_a_quorum(
    slack, posted, served, slack_alice, as_bob
):
    row, message = posted("scuttle", rocket="Vega")
    slack.click(message, "approve", slack_alice)
    slack.submit(slack.modals[0], {("typed", "typed"): "Vega"}, slack_alice)
    settle()
    assert state_of(row) == "prepared"
    assert "Alice Moreau\n approved. One more is needed." in FakeSlack.plain(message)
    assert buttons_of(message) == ["approve", "reject", "more", "open", "stop"]

    as_bob.post(f"/transactions/{row.pk}/approve", {"digest": row.intent_digest, "typed": "Vega"})
    settle()

    assert state_of(row) == "committed"
    assert "Approved by Bob Tanaka on the desk" in FakeSlack.plain(message)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            lambda row, bob: coordinator.approve(
                row.pk, digest=row.intent_digest, by=bob, via="web"
            ),
            "Approved by Bob Tanaka on the",
        ),
        (
            lambda row, bob: coordinator.reject(
                row.pk, digest=row.intent_digest, by=bob, via="web", reason="no"
            ),
            "Rejected by Bob",
        ),
        (
            lambda row, bob: coordinator.cancel(
                row.pk,
                by=__import__("ledger.principals").principals.Principal(
                    *row.proposed_by.split(":"), "Helpdesk agent"
                ),
                via="api",
            ),
            "Canceled by Helpdesk",
        ),
    ],
)
def test_every_message_is_updated_wherever_the_decision_is_made(
    slack, workspace, slack_alice, a_transaction, bob, how, says
):
    """Two channels and a direct message."""
    slack.add_channel(slack_alice.team, "C0SECOND")
    route(workspace, channel="C0SECOND")
    route(workspace, approver_id=workspace.identities.get().user_id)
    row = a_transaction()
    settle()
    stored_messages = [item for item in slack.messages if not item.thread_ts]
    assert len(stored_messages) == SlackMessage.objects.count() == 3

    how(row, bob)
    settle()

    for message in stored_messages:
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

    assert {(item.team.id, item.channel) for item in slack.messages} == {
        ("T0ACME", CHANNEL),
        ("T0GLOBEX", "C0GLOBEX"),
    }
    message = next(item for item in slack.messages if item.team is other)
    slack.click(message, "approve", carol)
    settle()
    assert (state_of(theirs), state_of(ours)) == ("committed", "prepared")
