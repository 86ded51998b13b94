"""Who is who: linked once from the desk, never by a claim or by somebody else's word."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import signing

from approvals.models import SlackIdentity, SlackLinkRequest, SlackWorkspace
from approvals.slack import identities
from ledger.models import Event
from tests.fake_slack import FakeSlack
from tests.slack.conftest import link_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice_there(slack, team, workspace, alice_user):
    """Alice has the same address in both; nobody has linked her yet."""
    alice_user.email = "alice@acme.example"
    alice_user.save()
    return slack.add_user(team, "U0ALICE", name="alice", email="alice@acme.example")


def test_a_person_links_themselves_with_a_link_that_only_their_slack_user_gets(
    slack, workspace, alice_there, as_alice
):
    page = as_alice.get("/slack/").content.decode()
    assert "alice@acme.example" in page

    answer = as_alice.post(f"/slack/{workspace.pk}/link", follow=True)
    assert "A link waits among your direct messages in Acme" in answer.content.decode()
    message = slack.messages[-1]
    assert slack.channels[message.team.id, message.channel].im_user == "U0ALICE"
    assert "Alice Moreau asked at the desk to be linked with you" in FakeSlack.plain(message)

    shown = as_alice.get(link_in(slack)).content.decode()
    assert "counts as your decision" in " ".join(shown.split())
    assert not SlackIdentity.objects.exists()  # opening a link does nothing

    as_alice.post(link_in(slack))
    identity = SlackIdentity.objects.get()
    assert (identity.user.username, identity.slack_user_id) == ("alice", "U0ALICE")
    by = f"user:{identity.user_id}"
    assert (identity.home_team_id, identity.linked_by) == ("T0ACME", by)
    event = Event.objects.get(kind="slack_linked")
    assert (event.principal, event.via) == (by, "web")
    assert "Linked" in as_alice.get("/slack/").content.decode()


def test_a_link_is_good_once(slack, workspace, alice_there, as_alice):
    as_alice.post(f"/slack/{workspace.pk}/link")
    as_alice.post(link_in(slack))
    SlackIdentity.objects.all().delete()

    again = as_alice.post(link_in(slack))

    assert again.status_code == 409
    assert "used before" in again.content.decode()
    assert not SlackIdentity.objects.exists()


def test_a_link_is_good_for_nobody_else(slack, workspace, alice_there, as_alice, as_bob, client):
    as_alice.post(f"/slack/{workspace.pk}/link")

    assert as_bob.post(link_in(slack)).status_code == 409
    assert client.post(link_in(slack)).status_code == 302  # to the sign-in page
    assert not SlackIdentity.objects.exists()


def test_a_link_lapses_and_cannot_be_made_up(
    slack, workspace, alice_there, as_alice, monkeypatch, bob_user
):
    as_alice.post(f"/slack/{workspace.pk}/link")
    monkeypatch.setattr(identities, "LINK_VALID", timedelta(0))
    assert as_alice.post(link_in(slack)).status_code == 409
    monkeypatch.undo()

    request = SlackLinkRequest.objects.get()
    for token in ("1", signing.dumps(request.pk, salt="another"), signing.dumps(request.pk)):
        assert as_alice.post(f"/slack/link/{token}/").status_code == 409
    assert not SlackIdentity.objects.exists()


def test_a_person_without_an_address_or_a_slack_user_is_told(
    slack, team, workspace, as_alice, alice_user
):
    answer = as_alice.post(f"/slack/{workspace.pk}/link", follow=True).content.decode()
    assert "no e-mail address" in answer

    alice_user.email = "alice@elsewhere.example"
    alice_user.save()
    answer = as_alice.post(f"/slack/{workspace.pk}/link", follow=True).content.decode()
    assert "Nobody in Acme has the address" in answer
    slack.fail("*", times=99, drop="before")
    answer = as_alice.post(f"/slack/{workspace.pk}/link", follow=True).content.decode()
    assert "Nothing was sent" in answer
    assert slack.messages == []


def test_a_bots_address_is_nobodys(slack, team, workspace, as_alice, alice_user):
    alice_user.email = "bot@acme.example"
    alice_user.save()
    slack.add_user(team, "U0BOTTY", email="bot@acme.example", is_bot=True)

    as_alice.post(f"/slack/{workspace.pk}/link")

    assert slack.messages == []


def test_a_slack_user_is_one_person_only(slack, workspace, alice_there, as_alice, bob_user):
    SlackIdentity.objects.create(user=bob_user, workspace=workspace, slack_user_id="U0ALICE")
    as_alice.post(f"/slack/{workspace.pk}/link")

    answer = as_alice.post(link_in(slack))

    assert answer.status_code == 409
    assert "linked to somebody else" in answer.content.decode()
    assert SlackIdentity.objects.get().user == bob_user


def test_unlinking_is_at_once(slack, workspace, slack_alice, as_alice):
    as_alice.post(f"/slack/{workspace.pk}/unlink")

    assert not SlackIdentity.objects.exists()
    assert Event.objects.filter(kind="slack_unlinked", via="web").count() == 1


def test_another_tenants_workspace_is_not_there(workspace, as_carol):
    assert "No workspace serves a tenant of yours" in as_carol.get("/slack/").content.decode()
    assert as_carol.post(f"/slack/{workspace.pk}/link").status_code == 404
    assert as_carol.post(f"/slack/{workspace.pk}/unlink").status_code == 404


def test_no_token_is_kept_in_the_database(team, workspace):
    kept = str(SlackWorkspace.objects.values().get())

    assert team.bot_token not in kept
    assert team.signing_secret not in kept
