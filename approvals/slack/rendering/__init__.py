"""Rows as Slack's blocks: messages, modals and the Home tab.

``home`` and ``modals`` are imported as modules; the rest is exported here.
"""

from approvals.slack.rendering.message import RenderedMessage, render
from approvals.slack.rendering.parts import as_dicts, desk_link, open_button
from approvals.slack.rendering.question import choices_of, digest_of
from approvals.slack.rendering.signed_values import (
    NO_CHOICE,
    ButtonValue,
    InvalidValue,
    ModalValue,
    read_button,
    read_modal,
)
from approvals.slack.rendering.text import (
    bold,
    escaped,
    fixed,
    mrkdwn,
    pieces,
    plain,
    quoted,
    regular,
    regular_date,
    rich,
    shortened,
)

__all__ = [
    "NO_CHOICE",
    "ButtonValue",
    "InvalidValue",
    "ModalValue",
    "RenderedMessage",
    "as_dicts",
    "bold",
    "choices_of",
    "desk_link",
    "digest_of",
    "escaped",
    "fixed",
    "mrkdwn",
    "open_button",
    "pieces",
    "plain",
    "quoted",
    "read_button",
    "read_modal",
    "regular",
    "regular_date",
    "render",
    "rich",
    "shortened",
]
