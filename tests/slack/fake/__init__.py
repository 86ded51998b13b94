"""A strict Slack on loopback: it refuses what the real one refuses."""

from __future__ import annotations

from tests.slack.fake.reading import links, links_in, mentions, mentions_in, plain
from tests.slack.fake.records import (
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
from tests.slack.fake.slack import FakeSlack

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
