"""A fake Slack with one team, one channel, one person and one product."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from slack_sdk import WebClient

from tests.fake_slack.listener import Listener
from tests.fake_slack.records import SlackUser, Team
from tests.fake_slack.slack import FakeSlack

__all__ = ["alice", "client", "clock", "desk", "slack", "team"]


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def slack(clock: Clock) -> Iterator[FakeSlack]:
    with FakeSlack(clock=clock) as slack:
        yield slack


@pytest.fixture
def team(slack: FakeSlack) -> Team:
    team = slack.add_team()
    slack.add_channel(team, "C0OPS", name="ops")
    return team


@pytest.fixture
def alice(slack: FakeSlack, team: Team) -> SlackUser:
    return slack.add_user(team, "U0ALICE", name="alice", email="alice@acme.example")


@pytest.fixture
def client(slack: FakeSlack, team: Team) -> WebClient:
    return WebClient(team.bot_token, base_url=slack.api_url, retry_handlers=[])


@pytest.fixture
def desk(slack: FakeSlack) -> Iterator[Listener]:
    with Listener() as desk:
        slack.interactivity_url = slack.commands_url = slack.events_url = desk.url
        yield desk
