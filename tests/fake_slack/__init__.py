"""A strict Slack on loopback: it refuses what the real one refuses."""

from __future__ import annotations

from tests.fake_slack.reading import links, links_in, mentions, mentions_in, plain
from tests.fake_slack.records import (
    DEFAULT_SCOPES,
    Call,
    Ephemeral,
    Message,
    Modal,
    Reaction,
    ResponseUrlUse,
    SlackUser,
    Team,
)
from tests.fake_slack.slack import FakeSlack

__all__ = [
    "DEFAULT_SCOPES",
    "Call",
    "Ephemeral",
    "FakeSlack",
    "Message",
    "Modal",
    "Reaction",
    "ResponseUrlUse",
    "SlackUser",
    "Team",
    "links",
    "links_in",
    "mentions",
    "mentions_in",
    "plain",
]
