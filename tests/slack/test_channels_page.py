"""The page *Channels*: operators say what is told where in Slack, and who is who."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.urls import reverse

from approvals.models import Membership, Role, SlackIdentity, SlackRoute
from ledger.events import outbox
from ledger.models import Event
from ledger.proof.audit import verification
from tests.slack.conftest import CHANNEL, link_in, make_due

pytestmark = pytest.mark.django_db
ROUTE = {"tenant": "acme", "concerns": "everything", "initial-concerns": "everything"}


def page_of(client) -> str:
    return client.get(reverse("desk:channels")).content.decode()


def changes() -> list[tuple[str, str]]:
    rows = Event.objects.filter(kind__startswith="slack_", via="web").order_by("pk")
    return [(row.kind, row.tenant) for row in rows]


def deliver() -> None:
    for delivery in outbox.overdue():
        outbox.deliver(delivery)


# --- routes ----------------------------------------------------------------------------------


@pytest.fixture
def new_route(workspace, as_olga):
    def new_route(**columns):
        address = reverse("desk:channel-route-new", args=[workspace.pk])
        return as_olga.post(address, {**ROUTE, **columns})

    return new_route


def test_an_operator_says_in_sentences_what_is_told_where(new_route, as_olga):
    answer = new_route(
        tool="pay", min_risk="HIGH", channel="C0RISKY", minutes="10", escalate_to="C0BOSSES"
    )

    assert answer.status_code == 302, answer.content.decode()
    route = SlackRoute.objects.get(tool="pay")
    assert (route.escalate_after, route.tenant_id) == (timedelta(minutes=10), "acme")
    page = page_of(as_olga)
    assert "Every proposal and every question: to C0FINANCE." in page
    assert "Proposals of pay, of at least high risk: to C0RISKY." in page
    assert "If nobody acts within 10 minutes, also to C0BOSSES." in page
    assert changes() == [("slack_route_added", "acme")]
    verification.verify()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"channel": "C1", "tool": "pya"}, "There is no tool and no skill of this name."),
        ({"channel": "#finance"}, "The ID of a channel begins with C."),
        ({}, "Name a channel or a person, one of the two."),
        ({"channel": "C1", "minutes": "5"}, "A next channel needs minutes"),
        ({"channel": "C1", "escalate_to": "C2"}, "A next channel needs minutes"),
        (
            {"channel": "C1", "concerns": "questions", "min_risk": "HIGH"},
            "Questions have neither a risk nor a service",
        ),
    ],
)
def test_a_route_that_would_tell_nobody_is_refused_in_words(new_route, globex, wrong, why):
    answer = new_route(**wrong)

    assert answer.status_code == 422
    assert why in answer.content.decode()
    assert SlackRoute.objects.count() == 1
    assert changes() == []


def test_a_route_leads_to_nobody_of_another_tenant(new_route, carol_user, alice_user):
    assert new_route(approver=carol_user.pk).status_code == 422
    assert new_route(channel="C1", tenant="globex").status_code == 422
    assert new_route(approver=alice_user.pk).status_code == 302
    assert SlackRoute.objects.get(channel="").approver == alice_user


def test_of_a_route_only_what_one_person_changed_is_saved(workspace, as_olga):
    route = workspace.routes.get()
    SlackRoute.objects.filter(pk=route.pk).update(tool="pay")  # meanwhile, by somebody else
    address = reverse("desk:channel-route", args=[route.pk])
    form = {"concerns": "everything", "initial-concerns": "everything", "tool": ""}

    answer = as_olga.post(address, {**form, "channel": "C0OTHER", "initial-channel": CHANNEL})
    assert answer.status_code == 302, answer.context["form"].errors

    route.refresh_from_db()
    assert (route.tool, route.channel) == ("pay", "C0OTHER")
    details = json.loads(Event.objects.get(kind="slack_route_changed").details)
    assert details["edits"] == {"channel": [CHANNEL, "C0OTHER"]}


def test_a_route_that_two_people_changed_at_once_stays_whole(workspace, as_olga, alice_user):
    route = workspace.routes.get()
    address = reverse("desk:channel-route", args=[route.pk])
    form = {"concerns": "everything", "initial-concerns": "everything"}
    both = {"channel": CHANNEL, "initial-channel": CHANNEL, "approver": alice_user.pk}

    assert as_olga.post(address, {**form, **both}).status_code == 422
    assert as_olga.post(address, {**form, "approver": alice_user.pk}).status_code == 422

    route.refresh_from_db()
    assert (route.channel, route.approver) == (CHANNEL, None)


def test_a_removed_route_is_gone_and_sealed(workspace, as_olga):
    route = workspace.routes.get()
    address = reverse("desk:channel-route-remove", args=[route.pk])

    as_olga.post(address)

    assert as_olga.post(address).status_code == 404
    assert changes() == [("slack_route_removed", "acme")]
    assert "without a route nothing is posted" in page_of(as_olga)


def test_a_test_message_comes_where_the_route_leads(slack, workspace, as_olga):
    address = reverse("desk:channel-route-try", args=[workspace.routes.get().pk])

    page = as_olga.post(address, follow=True).content.decode()

    assert "Slack has taken a test message." in page
    (message,) = slack.messages
    assert message.channel == CHANNEL
    assert "Olga Novak tries whether Assent reaches you." in message.text
    assert changes() == [("slack_route_tried", "acme")]


def test_a_test_message_that_slack_refuses_says_what_to_do(slack, team, workspace, as_olga):
    slack.add_channel(team, "C0OUT", name="out", has_bot=False)
    SlackRoute.objects.update(channel="C0OUT")
    address = reverse("desk:channel-route-try", args=[workspace.routes.get().pk])

    page = as_olga.post(address, follow=True).content.decode()

    assert "not_in_channel. Invite the bot there" in page
    assert changes() == []


def test_a_route_to_a_person_who_is_not_linked_says_so(workspace, as_olga, alice_user):
    SlackRoute.objects.update(channel="", approver=alice_user)
    route = workspace.routes.get()

    page = as_olga.post(reverse("desk:channel-route-try", args=[route.pk]), follow=True)

    assert "Nothing was posted" in page.content.decode()
    assert "not linked to Slack" in page_of(as_olga)


# --- people ----------------------------------------------------------------------------------


@pytest.fixture
def propose_link(workspace, as_olga):
    def propose(user, slack_user_id):
        address = reverse("desk:channel-link", args=[workspace.pk])
        return as_olga.post(address, {"person": user.pk, "slack_user_id": slack_user_id})

    return propose


def test_what_an_operator_proposes_counts_when_the_person_confirms_it_at_the_desk(
    slack, team, propose_link, alice_user, as_alice, as_olga
):
    slack.add_user(team, "U0ALICE", name="alice")
    assert propose_link(alice_user, "U0ALICE").status_code == 302
    assert not SlackIdentity.objects.exists()
    assert "asked to link your account" in as_alice.get("/").content.decode()
    assert "The link is being sent." in page_of(as_olga)

    deliver()
    assert "The link was sent." in page_of(as_olga)
    message = slack.messages[-1]
    assert slack.channels[message.team.id, message.channel].im_user == "U0ALICE"
    as_alice.post(link_in(slack))

    identity = SlackIdentity.objects.get()
    assert (identity.user, identity.linked_by) == (alice_user, f"user:{alice_user.pk}")
    page = page_of(as_olga)
    assert "U0ALICE" in page
    assert "The link was sent." not in page


def test_an_operator_cannot_link_their_own_slack_user_as_somebody_else(
    slack, team, propose_link, alice_user, as_olga
):
    slack.add_user(team, "U0OLGA", name="olga")
    propose_link(alice_user, "U0OLGA")
    deliver()

    assert as_olga.post(link_in(slack)).status_code == 409
    assert not SlackIdentity.objects.exists()


def test_a_link_that_slack_does_not_take_says_so(slack, propose_link, alice_user, as_olga):
    propose_link(alice_user, "U0NOBODY")
    for _ in range(2):
        deliver()
        make_due()

    assert "The link could not be sent" in page_of(as_olga)


@pytest.mark.parametrize("user_id", ["alice", "u0alice", "T0ACME", ""])
def test_what_is_no_slack_user_is_refused(propose_link, alice_user, user_id):
    assert propose_link(alice_user, user_id).status_code == 422
    assert changes() == []


def test_who_belongs_to_another_tenant_too_is_unlinked_by_its_operators_and_not_linked(
    propose_link, slack_alice, workspace, alice_user, carol_user, as_olga, globex
):
    Membership.objects.create(user=alice_user, tenant=globex, role=Role.VIEWER)
    unlink = reverse("desk:channel-unlink", args=[workspace.pk, alice_user.pk])

    assert propose_link(carol_user, "U0CAROL").status_code == 422
    assert propose_link(alice_user, "U0OTHER").status_code == 422
    assert SlackIdentity.objects.count() == 1
    assert as_olga.post(unlink).status_code == 302
    assert not SlackIdentity.objects.exists()


def test_a_tenant_posts_into_no_channel_of_another_one(new_route, workspace, globex):
    workspace.tenants.add(globex)
    SlackRoute.objects.create(workspace=workspace, tenant=globex, channel="C0GLOBEX")

    answer = new_route(channel="C0GLOBEX")
    also = new_route(channel="C0OWN", minutes="10", escalate_to="C0GLOBEX")

    assert (answer.status_code, also.status_code) == (422, 422)
    assert "Others are told things there" in answer.content.decode()
    assert not SlackRoute.objects.filter(tenant="acme", channel="C0GLOBEX").exists()


def test_an_operator_unlinks_and_the_person_is_told(workspace, slack_alice, as_olga, as_alice):
    identity = SlackIdentity.objects.get()
    as_olga.post(reverse("desk:channel-unlink", args=[workspace.pk, identity.user_id]))

    assert not SlackIdentity.objects.exists()
    assert Event.objects.filter(kind="slack_unlinked", via="web").count() == 1
    assert "Olga Novak unlinked your account" in as_alice.get("/").content.decode()


# --- workspaces ------------------------------------------------------------------------------


def test_operators_choose_the_language_of_a_workspace(workspace, as_olga):
    address = reverse("desk:channel-workspace", args=[workspace.pk])
    form = {"tenants": ["acme"], "initial-tenants": ["acme"]}
    assert "Deutsch" in as_olga.get(address).content.decode()

    refused = as_olga.post(address, {**form, "language": "tlh"})
    accepted = as_olga.post(address, {**form, "language": "de"})

    assert (refused.status_code, accepted.status_code) == (422, 302)
    workspace.refresh_from_db()
    assert workspace.language == "de"
    assert changes() == [("slack_workspace_changed", "acme")]


def test_a_workspace_serves_whom_its_operator_keeps_and_somebody(
    workspace, as_olga, olga_user, globex
):
    address = reverse("desk:channel-workspace", args=[workspace.pk])
    both = {"tenants": ["acme", "globex"], "initial-tenants": ["acme"]}
    assert as_olga.post(address, both).status_code == 422
    assert as_olga.post(address, {"initial-tenants": ["acme"]}).status_code == 422

    Membership.objects.create(user=olga_user, tenant=globex, role=Role.OPERATOR)
    as_olga.post(address, both)

    assert set(workspace.tenants.values_list("slug", flat=True)) == {"acme", "globex"}
    assert changes() == [("slack_workspace_changed", "")]  # superusers see it


def test_a_workspace_that_serves_others_too_is_not_changed_by_operators_of_one(
    workspace, as_olga, globex
):
    workspace.tenants.add(globex)
    SlackRoute.objects.create(workspace=workspace, tenant=globex, channel="C0SECRET")

    address = reverse("desk:channel-workspace", args=[workspace.pk])
    assert as_olga.post(address, {"tenants": ["acme"]}).status_code == 404
    page = page_of(as_olga)
    assert "it also serves others" in page
    assert ("Globex" in page, "C0SECRET" in page) == (False, False)


def test_what_is_of_another_tenant_is_not_there(workspace, as_carol, carol_user, globex):
    Membership.objects.create(user=carol_user, tenant=globex, role=Role.OPERATOR)
    route = workspace.routes.get()
    here, there = [workspace.pk], [route.pk]

    for name, args in (
        ("channel-workspace", here),
        ("channel-link", here),
        ("channel-route-new", here),
        ("channel-route", there),
    ):
        assert as_carol.get(reverse(f"desk:{name}", args=args)).status_code == 404, name
    for name, args in (("channel-route-remove", there), ("channel-route-try", there)):
        assert as_carol.post(reverse(f"desk:{name}", args=args)).status_code == 404, name
    assert "slack_connect --tenant globex" in page_of(as_carol)


def test_only_operators_have_the_page(as_alice, as_vera):
    for client in (as_alice, as_vera):
        assert client.get(reverse("desk:channels")).status_code == 403


def test_the_page_says_who_is_connected_since_when_and_what_did_not_arrive(
    slack, workspace, as_olga, a_payment, settings
):
    settings.SLACK_BOT_TOKENS = []
    a_payment()
    page = page_of(as_olga)

    assert "connected" in page
    assert "serves Acme" in page
    assert "nothing goes to Slack" in page
