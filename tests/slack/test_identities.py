"""Who is who: linked once from the desk, never by a claim or by somebody else's word."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.core import signing

from approvals.models import SlackIdentity, SlackLinkRequest, SlackWorkspace
from approvals.slack import identities
from ledger.events import outbox
from ledger.models import Event
from tests.fake_slack import FakeSlack

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice_there(slack, team, workspace, alice_user):
    """Alice has the same address in both; nobody has linked her yet."""
    alice_user.email = "alice@acme.example"
    alice_user.save()
    return slack.add_user(team, "U0ALICE", name="alice", email="alice@acme.example")


def link_in(slack):
    button = slack.messages[-1].blocks[-1]["elements"][0]
    return re.sub(r"^http://[^/]+", "", button["url"])


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


# --- operators, in the admin -----------------------------------------------------------------


@pytest.fixture
def as_admin_olga(as_olga, olga_user):
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(content_type__app_label="approvals"))
    return as_olga


@pytest.fixture
def propose_link(workspace, as_admin_olga):
    def propose(user, slack_user_id):
        shown_text = {
            "user": user.pk,
            "workspace": workspace.pk,
            "slack_user_id": slack_user_id,
            "home_team_id": "",
        }
        return as_admin_olga.post("/admin/approvals/slackidentity/add/", shown_text)

    return propose


def test_what_an_operator_proposes_counts_when_the_person_confirms_it_at_the_desk(
    slack, team, propose_link, alice_user, as_alice, carol_user
):
    slack.add_user(team, "U0ALICE", name="alice")
    assert propose_link(carol_user, "U0ALICE").status_code == 200  # an error at the field
    assert propose_link(alice_user, "U0ALICE").status_code == 302
    assert not SlackIdentity.objects.exists()
    assert "asked to link your account" in as_alice.get("/").content.decode()

    for delivery in outbox.overdue():
        outbox.deliver(delivery)
    message = slack.messages[-1]
    assert slack.channels[message.team.id, message.channel].im_user == "U0ALICE"
    as_alice.post(link_in(slack))

    identity = SlackIdentity.objects.get()
    assert (identity.user, identity.linked_by) == (alice_user, f"user:{alice_user.pk}")


def test_an_operator_cannot_link_their_own_slack_user_as_somebody_else(
    slack, team, propose_link, alice_user, as_admin_olga
):
    slack.add_user(team, "U0OLGA", name="olga")
    propose_link(alice_user, "U0OLGA")
    for delivery in outbox.overdue():
        outbox.deliver(delivery)

    assert as_admin_olga.post(link_in(slack)).status_code == 409
    assert not SlackIdentity.objects.exists()


def test_an_operator_routes_for_their_own_tenant(workspace, as_admin_olga, globex):
    def add(tenant):
        shown_text = {
            "workspace": workspace.pk,
            "tenant": tenant,
            "concerns": "everything",
            "tool": "pay",
            "min_risk": "",
            "channel": "C1",
            "approver": "",
            "escalate_to": "",
            "escalate_after": "",
        }
        return as_admin_olga.post("/admin/approvals/slackroute/add/", shown_text)

    assert add("globex").status_code == 200
    assert add("acme").status_code == 302
    assert workspace.routes.count() == 2
    listed = as_admin_olga.get("/admin/approvals/slackroute/").content.decode()
    assert "pay" in listed


def test_operators_choose_the_language_of_a_workspace(workspace, as_admin_olga):
    page = f"/admin/approvals/slackworkspace/{workspace.pk}/change/"
    assert "Deutsch" in as_admin_olga.get(page).content.decode()

    refused = as_admin_olga.post(page, {"language": "tlh", "tenants": ["acme"]})
    assert "tlh" in refused.content.decode()
    accepted = as_admin_olga.post(page, {"language": "de", "tenants": ["acme"]})

    assert accepted.status_code == 302
    workspace.refresh_from_db()
    assert workspace.language == "de"


def test_an_operator_cannot_connect_a_workspace_of_another_tenant(workspace, as_admin_olga, globex):
    page = f"/admin/approvals/slackworkspace/{workspace.pk}/change/"
    assert as_admin_olga.post(page, {"tenants": ["acme", "globex"]}).status_code == 200
    workspace.tenants.add(globex)
    assert as_admin_olga.get(page).status_code == 302  # it serves others too: a superuser's
    assert as_admin_olga.get("/admin/approvals/slackworkspace/add/").status_code == 403


def test_no_token_is_kept_in_the_database(team, workspace):
    kept = str(SlackWorkspace.objects.values().get())

    assert team.bot_token not in kept
    assert team.signing_secret not in kept
