"""The whole way through Slack, with real processes: post, click, commit, message rewritten."""

from __future__ import annotations

import threading
from io import StringIO
from uuid import uuid4

import httpx
import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db.models.functions import Now
from django.test import Client
from playwright.sync_api import expect

from approvals.models import SlackIdentity, SlackMessage, SlackWorkspace
from approvals.slack.api import credentials
from ledger.models import AgentToken, Decision, Delivery, DeliveryState, Transaction
from ledger.states import State
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.fake_slack import FakeSlack
from tests.processes import running, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
CHANNEL = "C0FINANCE"


@pytest.fixture
def slack():
    with FakeSlack() as slack:
        yield slack


@pytest.fixture
def team(slack, settings):
    team = slack.add_team("T0ACME", "Acme")
    slack.add_channel(team, CHANNEL, name="finance")
    settings.SLACK_API_URL = slack.api_url
    settings.SLACK_BOT_TOKENS = [team.bot_token]
    credentials._team_of_token.clear()
    return team


@pytest.fixture
def environment(slack, team):
    return {
        "ASSENT_SLACK_API_URL": slack.api_url,
        "ASSENT_SLACK_BOT_TOKEN": team.bot_token,
        "ASSENT_SLACK_SIGNING_SECRET": team.signing_secret,
        "ASSENT_SLACK_APP_TOKEN": team.app_token,
    }


@pytest.fixture
def people(slack, team, acme, alice_user, bob_user):
    call_command("slack_connect", tenant="acme", channel=CHANNEL, stdout=StringIO())
    workspace = SlackWorkspace.objects.get()
    for user in (alice_user, bob_user):
        person = slack.add_user(team, f"U0{user.username.upper()}", name=user.username)
        SlackIdentity.objects.create(user=user, workspace=workspace, slack_user_id=person.id)
    return {
        user.username: slack.users[team.id, f"U0{user.username.upper()}"]
        for user in (alice_user, bob_user)
    }


def serve(slack, product):
    slack.interactivity_url = f"{product.url}/slack/interactions"
    slack.commands_url = f"{product.url}/slack/commands"
    slack.events_url = f"{product.url}/slack/events"


def proposed_by_rest(product, helpdesk, **body):
    _, token = AgentToken.issue(helpdesk, scopes=["propose"])
    answer = httpx.post(
        f"{product.url}/api/v1/transactions",
        json={"tool": "pay", "arguments": {"reference": uuid4().hex, "amount": "48.20"}, **body},
        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex},
        timeout=30,
    )
    assert answer.status_code == 201, answer.text
    return Transaction.objects.get(pk=answer.json()["transaction_id"])


def message_of(slack, row):
    def find():
        copy = SlackMessage.objects.filter(transaction=row).exclude(ts="").first()
        return copy and next((one for one in slack.messages if one.ts == copy.ts), None)

    return until(find, what="the message is posted")


@pytest.mark.parametrize("transport", ["http", "socket"])
def test_posted_clicked_decided_committed_and_rewritten(
    slack, people, environment, helpdesk, transport
):
    slack.mode = transport
    names = ["web", "worker", "sweeper"] + (["listener"] if transport == "socket" else [])
    with running(*names, **environment) as product:
        serve(slack, product)
        if transport == "socket":
            slack.wait_for_socket(30)
        row = proposed_by_rest(product, helpdesk)
        message = message_of(slack, row)

        click = slack.click(message, "approve", people["alice"])

        assert not click.is_late
        until(lambda: " · done" in FakeSlack.plain(message), what="the message is rewritten")
        row.refresh_from_db()
        assert row.state == State.COMMITTED
        assert f"receipt \n{row.receipt}" in FakeSlack.plain(message)
        thread = until(
            lambda: [one for one in slack.messages if one.thread_ts == message.ts][1:],
            what="the outcome is in the thread",
        )
        assert row.receipt in FakeSlack.plain(thread[0])


def test_an_approval_in_the_browser_and_one_in_slack_at_the_same_instant_are_one(
    slack, people, environment, helpdesk, bob_user
):
    browser = Client()
    browser.force_login(bob_user)
    cookie = {django_settings.SESSION_COOKIE_NAME: browser.cookies["assent_session"].value}
    with running("web", "worker", "sweeper", **environment) as product:
        serve(slack, product)
        row = proposed_by_rest(product, helpdesk)
        message = message_of(slack, row)
        with httpx.Client(base_url=product.url, cookies=cookie) as desk:
            desk.get(f"/transactions/{row.pk}/")
            said = {"digest": row.intent_digest, "csrfmiddlewaretoken": desk.cookies["csrftoken"]}
            starts = threading.Barrier(2)
            answers = {}

            def click():
                starts.wait()
                answers["slack"] = slack.click(message, "approve", people["alice"])

            def post():
                starts.wait()
                answers["desk"] = desk.post(
                    f"/transactions/{row.pk}/approve", data=said, headers={"Referer": product.url}
                )

            both = [threading.Thread(target=click), threading.Thread(target=post)]
            for one in both:
                one.start()
            for one in both:
                one.join()

        until(lambda: " · done" in FakeSlack.plain(message), what="the message is rewritten")
        vote = Decision.objects.get()
        assert f"Approved by {vote.principal_name}" in FakeSlack.plain(message)
        if vote.via == "web":
            until(lambda: slack.ephemerals, what="alice hears that bob was faster")
            assert "Bob Tanaka" in slack.ephemerals[0].text
        else:
            assert answers["desk"].status_code == 409
            assert "Alice Moreau" in answers["desk"].text


@pytest.mark.browser
def test_the_desk_shows_live_what_was_decided_in_slack(
    slack, people, environment, helpdesk, browser
):
    with running("web", "worker", "sweeper", **environment) as product:
        serve(slack, product)
        row = proposed_by_rest(product, helpdesk)
        message = message_of(slack, row)
        page = browser.new_page()
        page.goto(f"{product.url}/sign-in/")
        page.fill("[name=username]", "bob")
        page.fill("[name=password]", "bob")
        page.click("button.primary")
        expect(page.locator("#item")).to_contain_text(row.action_summary)
        expect(page.locator("[data-live]")).to_have_text("Live")

        slack.click(message, "approve", people["alice"])

        expect(page.locator("#item")).to_contain_text("Approved by Alice Moreau", timeout=15_000)
        expect(page.locator("#item .timeline")).to_contain_text("in Slack")
        expect(page.locator("#item")).to_contain_text("Done", timeout=15_000)


def test_without_redis_a_click_still_counts(slack, people, environment, helpdesk):
    nowhere = {"REDIS_URL": "redis://127.0.0.1:1/0"}
    with running("web", "sweeper", "courier", **environment, **nowhere) as product:
        serve(slack, product)
        row = proposed_by_rest(product, helpdesk)
        message = message_of(slack, row)

        click = slack.click(message, "approve", people["alice"])

        assert not click.is_late
        until(lambda: " · done" in FakeSlack.plain(message), what="the message is rewritten")


def test_a_worker_killed_while_it_posts_makes_no_second_message(slack, people, environment):
    slack.fail("chat.postMessage", delay_s=2)
    row = propose()
    with running("worker", "sweeper", **environment) as product:
        until(lambda: slack.messages, what="Slack has the message, and has not answered yet")
        product.kill("worker")
        product.kill("sweeper")
        assert SlackMessage.objects.get().ts == ""
        # As if the time had passed after which another may try.
        SlackMessage.objects.update(busy_until=Now())
        Delivery.objects.filter(state=DeliveryState.WAITING).update(next_attempt_at=Now())

        product.start("worker", "sweeper", **environment)

        message = message_of(slack, row)
        assert [one for one in slack.messages if not one.thread_ts] == [message]


@pytest.mark.large
@pytest.mark.timeout(400)
def test_a_thousand_pending_messages(slack, people, environment, helpdesk, bob, settings):
    """Each is posted once although Slack limits us, a click is not kept waiting, and those that are
    decided are rewritten."""
    settings.LIMITS = ["off"]
    for _ in range(1000):
        propose()
    slack.limits_posts = 100
    names = ("web", "worker", "worker-2", "courier", "sweeper")
    with running(*names, **environment) as product:
        serve(slack, product)
        until(lambda: len(slack.messages) >= 100, 60, "the first hundred are posted")
        copy = until(lambda: SlackMessage.objects.exclude(ts="").first())
        clicked = next(one for one in slack.messages if one.ts == copy.ts)
        slack.click(clicked, "approve", people["alice"])
        until(lambda: Decision.objects.exists(), 90, "the click is not behind the messages")
        until(lambda: SlackMessage.objects.exclude(ts="").count() == 1000, 200, "all are posted")
        originals = [one for one in slack.messages if not one.thread_ts]
        assert len(originals) == 1000

        slack.limits_posts = None
        first = Transaction.objects.filter(state=State.PREPARED).order_by("pk")[:200]
        decided = {str(row.pk) for row in first}
        for row in first:
            coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="no")

        copies = SlackMessage.objects.filter(transaction__in=decided).values_list("ts", flat=True)
        rewritten = [one for one in originals if one.ts in set(copies)]
        until(
            lambda: all(len(one.blocks[-1]["elements"]) == 1 for one in rewritten),
            100,
            "every message of those lost its buttons",
        )
    assert not Delivery.objects.filter(state=DeliveryState.GIVEN_UP).exists()
