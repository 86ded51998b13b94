"""The Home tab, ``/assent``, Socket Mode, and the command that says what is missing."""

from __future__ import annotations

import threading
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from approvals.models import Membership, SlackRoute
from approvals.slack import socket_mode
from ledger.transactions import coordinator
from tests.fake_slack import FakeSlack
from tests.slack.conftest import route, settle, state_of

pytestmark = pytest.mark.django_db(transaction=True)


# --- home and command ------------------------------------------------------------------------


def test_home_lists_what_waits_for_me(
    slack, posted, served, slack_alice, alice, a_transaction, a_claimed_task, worker, globex
):
    from a2a.tasks import questions

    row, _ = posted(reference="order-1042")
    mine_no_more, _ = posted("scuttle", rocket="Vega")
    coordinator.approve(mine_no_more.pk, digest=mine_no_more.intent_digest, by=alice, via="web")
    a_transaction("pay", tenant="globex")
    task = a_claimed_task()
    questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="Which <!here> date?",
        via="api",
    )

    assert slack.open_home(slack_alice).status == 200
    settle()

    shown_text = FakeSlack.plain(slack.homes[slack_alice.id])
    assert "2 items wait for you." in shown_text
    assert "order-1042" in shown_text
    assert "Which <!here> date?" in shown_text
    assert "Vega" not in shown_text
    assert FakeSlack.mentions_in(slack.homes[slack_alice.id]) == []
    urls = [
        item["url"]
        for block in slack.homes[slack_alice.id]["blocks"]
        for item in block.get("elements", [])
        if "url" in item
    ]
    assert f"http://localhost:8000/transactions/{row.pk}/" in urls


def test_home_is_as_long_as_a_view_may_be(slack, served, slack_alice, a_transaction):
    for number in range(40):
        a_transaction("pay", reference=f"{number} " + "x" * 400)
    slack.open_home(slack_alice)
    settle()

    shown_text = FakeSlack.plain(slack.homes[slack_alice.id])
    assert "40 items wait for you." in shown_text
    assert "10 more are on the desk." in shown_text


def test_a_viewer_of_many_items_costs_few_queries(
    workspace, slack_bob, bob_user, a_transaction, django_assert_max_num_queries
):
    from approvals.slack.rendering import home

    Membership.objects.update(role="viewer")
    for _ in range(20):
        a_transaction()

    with django_assert_max_num_queries(8):
        assert home.waiting_for(bob_user) == ([], 0)


def test_home_shows_a_stranger_how_to_link(slack, served, workspace, mallory):
    slack.open_home(mallory)
    settle()

    assert "does not know yet who you are" in FakeSlack.plain(slack.homes[mallory.id])


def test_a_viewer_has_nothing_waiting(slack, posted, served, slack_alice):
    posted()
    Membership.objects.update(role="viewer")

    slack.open_home(slack_alice)
    settle()

    assert "Nothing waits for you." in FakeSlack.plain(slack.homes[slack_alice.id])


def test_the_command_says_the_count_and_the_link(slack, posted, served, slack_alice, mallory):
    assert slack.command(slack_alice).json["text"] == (
        "Nothing waits for you. http://localhost:8000"
    )
    posted()

    mine = slack.command(slack_alice)
    strangers = slack.command(mallory)

    assert mine.json["text"] == "One item waits for you. http://localhost:8000"
    assert mine.json["response_type"] == "ephemeral"
    assert "Link your account" in strangers.json["text"]
    assert slack.command(slack_alice, forged=True).status == 401


def test_the_verification_of_the_address_is_answered(slack, team, served, workspace):
    assert slack.url_verification("a challenge").body == "a challenge"


# --- Socket Mode -----------------------------------------------------------------------------


@pytest.fixture
def listening(slack, team, workspace, settings):
    settings.SLACK_TRANSPORT = "socket"
    settings.SLACK_APP_TOKENS = [team.app_token]
    settings.SLACK_SIGNING_SECRETS = []
    slack.mode = "socket"
    stop = threading.Event()
    thread = threading.Thread(target=socket_mode.listen, args=(stop,))
    thread.start()
    slack.wait_for_socket()
    yield
    stop.set()
    thread.join(20)
    assert not thread.is_alive()


def test_everything_works_through_a_socket_as_well(slack, listening, posted, slack_alice):
    row, message = posted()
    other, other_message = posted()

    approved = slack.click(message, "approve", slack_alice)
    opened = slack.click(other_message, "reject", slack_alice)
    modal = slack.modals[0]
    refused = slack.submit(modal, {("reason", "reason"): "  "}, slack_alice)
    assert modal.errors == {"reason": "Say why: the agent reads it."}
    closed = slack.submit(modal, {("reason", "reason"): "Paid already."}, slack_alice)
    counted = slack.command(slack_alice)
    slack.open_home(slack_alice)
    settle()

    assert not any(item.is_late for item in (approved, opened, refused, closed, counted))
    assert (state_of(row), state_of(other)) == ("committed", "aborted")
    assert "wait" in counted.json["text"]
    assert "Nothing waits for you." in FakeSlack.plain(slack.homes[slack_alice.id])


def test_a_socket_that_slack_renews_or_loses_is_opened_again(slack, listening, posted, slack_alice):
    row, message = posted()
    opened = len([item for item in slack.calls if item.method == "apps.connections.open"])

    slack.refresh_socket()
    slack.wait_for(
        lambda: (
            len([item for item in slack.calls if item.method == "apps.connections.open"]) > opened
        ),
        20,
    )
    slack.wait_for_socket()
    slack.click(message, "approve", slack_alice)
    settle()

    assert state_of(row) == "committed"


def test_listening_needs_an_app_token(settings):
    settings.SLACK_APP_TOKENS = []
    with pytest.raises(CommandError, match="ASSENT_SLACK_APP_TOKEN"):
        call_command("slack_listen")


# --- what is missing -------------------------------------------------------------------------


def checked():
    """What ``slack_check`` prints, and whether all is well."""
    out = StringIO()
    try:
        call_command("slack_check", stdout=out)
    except SystemExit as ended:
        return out.getvalue(), ended.code
    return out.getvalue(), 0


def test_all_is_well(slack, team, workspace, slack_alice, settings):
    settings.PUBLIC_URL = "https://assent.example"

    shown_text, code = checked()

    assert code == 0, shown_text
    assert "@" in shown_text
    assert "Messages go to #finance in Acme." in shown_text
    assert "1 of 1 approvers of acme are linked to Acme." in shown_text


def test_without_a_token_it_says_so(settings):
    settings.SLACK_BOT_TOKENS = []
    shown_text, code = checked()
    assert (shown_text.strip(), code) == (
        "MISSING ASSENT_SLACK_BOT_TOKEN is not set: nothing goes to Slack.",
        1,
    )


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda s: setattr(s.settings, "SLACK_SIGNING_SECRETS", []), "ASSENT_SLACK_SIGNING_SECRET"),
        (lambda s: setattr(s.settings, "PUBLIC_URL", "http://localhost:8000"), "Slack cannot call"),
        (lambda s: setattr(s.settings, "SLACK_TRANSPORT", "pigeon"), "neither http nor socket"),
        (lambda s: setattr(s.settings, "SLACK_TRANSPORT", "socket"), "ASSENT_SLACK_APP_TOKEN"),
        (lambda s: setattr(s.team, "auth_error", "token_revoked"), "token_revoked"),
        (lambda s: setattr(s.team, "scopes", ("commands",)), "The app lacks chat:write"),
        (lambda s: s.workspace.tenants.clear(), "is not connected"),
        (lambda s: SlackRoute.objects.all().delete(), "has no route for acme"),
        (lambda s: SlackRoute.objects.update(channel="#finance"), "#finance is no channel id"),
        (lambda s: SlackRoute.objects.update(channel="C0NOWHERE"), "channel_not_found"),
        (lambda s: setattr(s.slack.channels["T0ACME", "C0FINANCE"], "has_bot", False), "/invite"),
        (
            lambda s: setattr(s.slack.channels["T0ACME", "C0FINANCE"], "is_archived", True),
            "is archived",
        ),
        (lambda s: route(s.workspace, approver=s.user), "bob of a route is not linked"),
        (
            lambda s: setattr(s.settings, "SLACK_API_URL", "http://127.0.0.1:1/api/"),
            "Slack cannot be reached",
        ),
    ],
)
def test_each_thing_that_is_missing_is_named(
    slack, team, workspace, slack_alice, bob_user, settings, spoil, says
):
    from types import SimpleNamespace

    settings.PUBLIC_URL = "https://assent.example"
    spoil(
        SimpleNamespace(
            slack=slack, team=team, workspace=workspace, settings=settings, user=bob_user
        )
    )

    shown_text, code = checked()

    assert says in shown_text
    assert code == 1


def test_connecting_twice_changes_nothing(workspace, team):
    out = StringIO()
    call_command("slack_connect", tenant="acme", channel="C0FINANCE", stdout=out)

    assert workspace.routes.count() == 1
    assert "serves acme, with 1 route." in out.getvalue()


def test_of_several_workspaces_one_is_named(team, slack, acme, settings):
    other = slack.add_team("T0OTHER", "Other")
    settings.SLACK_BOT_TOKENS = [team.bot_token, other.bot_token]
    with pytest.raises(CommandError, match="--team"):
        call_command("slack_connect", tenant="acme")
    other.auth_error = "token_revoked"
    shown_text = StringIO()

    call_command(
        "slack_connect", tenant="acme", team="T0ACME", stdout=StringIO(), stderr=shown_text
    )

    assert "token_revoked" in shown_text.getvalue()
    assert [item.team_id for item in acme.slack_workspaces.all()] == ["T0ACME"]


def test_connecting_says_what_is_wrong(team, acme, settings):
    with pytest.raises(CommandError, match="There is no tenant"):
        call_command("slack_connect", tenant="nobody")
    team.auth_error = "invalid_auth"
    with pytest.raises(CommandError, match="invalid_auth"):
        call_command("slack_connect", tenant="acme")


def test_the_manifest_asks_for_what_is_needed_and_for_nothing_else(settings):
    import yaml

    from approvals.slack import setup

    page = (settings.BASE_DIR / "docs/slack.md").read_text()
    manifest = yaml.safe_load(page.split("```yaml")[1].split("```")[0])

    wanted = {*setup.NEEDED, *setup.HISTORY, "channels:read", "groups:read"}
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == wanted
    assert manifest["settings"]["interactivity"]["request_url"].endswith("/slack/interactions")
    assert manifest["settings"]["event_subscriptions"]["bot_events"] == ["app_home_opened"]
