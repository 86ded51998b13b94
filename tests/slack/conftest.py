"""A Slack on loopback, its people, and the product in front of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import django_rq
import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import call_command

from a2a.models import Question
from approvals.models import SlackCommand, SlackIdentity, SlackMessage, SlackRoute, SlackWorkspace
from approvals.slack.api import credentials
from approvals.slack.interactions import command_queue
from approvals.slack.interactions.commands import Click, Reply
from ledger.events import outbox
from ledger.foundation import doorbell
from ledger.models import Delivery, Tenant, Transaction
from ledger.workers import jobs
from ledger.workers.queues import work_off
from tests.fake_slack import FakeSlack, Message, SlackUser, Team

CHANNEL = "C0FINANCE"


def try_again() -> None:
    """As if the time had come for the commands that wait, and the sweeper had found them."""
    from django.db.models.functions import Now

    SlackCommand.objects.filter(done_at=None).update(due_at=Now() - timedelta(seconds=5))
    for kind in (Click, Reply):
        for command_id in command_queue.due(kind):
            jobs.enqueue(kind.queue, command_id)


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as slack:
        yield slack


@pytest.fixture
def team(slack: FakeSlack, settings: Any) -> Iterator[Team]:
    """The workspace of Acme, to which the settings have the keys."""
    team = slack.add_team("T0ACME", "Acme")
    slack.add_channel(team, CHANNEL, name="finance")
    settings.SLACK_API_URL = slack.api_url
    settings.SLACK_BOT_TOKENS = [team.bot_token]
    settings.SLACK_SIGNING_SECRETS = [team.signing_secret]
    settings.SLACK_APP_TOKENS = []
    credentials._team_of_token.clear()
    yield team
    credentials._team_of_token.clear()


@pytest.fixture
def workspace(team: Team, acme: Tenant) -> SlackWorkspace:
    """Connected as an operator would; everything goes to #finance."""
    call_command("slack_connect", tenant="acme", channel=CHANNEL, stdout=StringIO())
    return SlackWorkspace.objects.get()


def linked(slack: FakeSlack, team: Team, workspace: SlackWorkspace, user: User) -> SlackUser:
    person = slack.add_user(
        team,
        f"U0{user.username.upper()}",
        name=user.username,
        email=f"{user.username}@acme.example",
    )
    SlackIdentity.objects.create(
        user=user, workspace=workspace, slack_user_id=person.id, linked_by="olga"
    )
    return person


@pytest.fixture
def slack_alice(
    slack: FakeSlack, team: Team, workspace: SlackWorkspace, alice_user: User
) -> SlackUser:
    return linked(slack, team, workspace, alice_user)


@pytest.fixture
def slack_bob(slack: FakeSlack, team: Team, workspace: SlackWorkspace, bob_user: User) -> SlackUser:
    return linked(slack, team, workspace, bob_user)


@pytest.fixture
def mallory(slack: FakeSlack, team: Team) -> SlackUser:
    """A member of the channel whom Assent does not know."""
    return slack.add_user(team, "U0MALLORY", name="mallory", email="mallory@acme.example")


@pytest.fixture
def served(slack: FakeSlack, live_server: Any) -> None:
    """Slack calls the product over HTTP; needs a database that other threads see."""
    slack.interactivity_url = f"{live_server.url}/slack/interactions"
    slack.commands_url = f"{live_server.url}/slack/commands"
    slack.events_url = f"{live_server.url}/slack/events"


def settle() -> None:
    """Do all the work that is due now, as the workers and the sweeper would."""
    queues = [django_rq.get_queue(name) for name in django_settings.RQ_QUEUES]
    while True:
        work_off(list(django_settings.RQ_QUEUES))
        due = outbox.overdue()
        for delivery_id in due:
            outbox.deliver(delivery_id)
        if not due and not any(queue.count for queue in queues):
            return


def make_due(recipient: str = "") -> None:
    """As if the time had come."""
    from django.db.models.functions import Now

    waiting = Delivery.objects.filter(state="waiting", recipient__startswith=recipient)
    waiting.update(next_attempt_at=Now() - timedelta(seconds=1))


def pass_pauses():
    """As if the time that Slack asked for had gone by."""
    for key in doorbell.redis().scan_iter("assent:slack:pause:*"):
        doorbell.redis().delete(key)


def catch_up():
    for _ in range(6):
        pass_pauses()
        make_due()
        settle()


def only_message(slack: FakeSlack) -> Message:
    """The one message that is not in a thread."""
    (message,) = [item for item in slack.messages if not item.thread_ts]
    return message


def thread_of(slack: FakeSlack, message: Message) -> list[str]:
    return [FakeSlack.plain(item) for item in slack.messages if item.thread_ts == message.ts]


def buttons_of(message: Message) -> list[str]:
    return [item["action_id"] for item in message.blocks[-1]["elements"]]


def ephemeral_text(slack: FakeSlack) -> str:
    """What the one ephemeral message says."""
    (only,) = slack.ephemerals
    return only.text


Poster = Callable[..., tuple[Transaction, Message]]


@pytest.fixture
def posted(slack: FakeSlack, workspace: SlackWorkspace, a_transaction: Any) -> Poster:
    """A transaction that waits for sign-off, and its message."""

    def post(tool: str = "pay", **arguments: Any) -> tuple[Transaction, Message]:
        row = a_transaction(tool, **arguments)
        settle()
        stored = SlackMessage.objects.get(transaction=row)
        return row, next(item for item in slack.messages if item.ts == stored.ts)

    return post


def route(workspace: SlackWorkspace, tenant: str = "acme", **what: Any) -> SlackRoute:
    return SlackRoute.objects.create(workspace=workspace, tenant_id=tenant, **what)


def state_of(row: Transaction | Question) -> str:
    row.refresh_from_db()
    return str(row.state)


def link_in(slack: FakeSlack) -> str:
    """The address of the one-time link in the newest message."""
    button = slack.messages[-1].blocks[-1]["elements"][0]
    return re.sub(r"^http://[^/]+", "", button["url"])
