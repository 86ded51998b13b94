"""A message about a transaction or question: its text and blocks, from the rows as they are now.

Every limit of Block Kit (https://docs.slack.dev/reference/block-kit) is kept by how the parts are
made, so that no payload, however long, loses its message.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from slack_sdk.models.blocks import Block

from a2a.models import QuestionState
from approvals.desk import why_stopped
from approvals.models import SlackMessage
from approvals.presentation import full_display, labels
from approvals.slack.languages import in_language_of_message
from approvals.slack.rendering import question, transaction
from approvals.slack.rendering.parts import Detail, as_dicts, reason_for_posting
from approvals.slack.rendering.text import escaped, one_line
from ledger.states import State

# Of all blocks together as JSON. Slack refuses longer messages (msg_blocks_too_long) from a size on
# that it does not document; about 12,000 were refused.
MESSAGE_MOST = 9000

# More than ``full_display`` lets any part have, so that nothing is cut.
WHOLE = Detail(2900, 2900, 2900, fields=1000, value=2900, warnings=100, is_whole=True)
# The agent's own prose is cut first and a warning last: an agent must not crowd a warning out.
DETAILS = (
    Detail(summary=2900, warning=600, prose=1500, fields=8, value=300),
    Detail(summary=2000, warning=300, prose=300, fields=8, value=80),
    Detail(summary=1000, warning=150, prose=100, fields=4, value=40),
)


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A message as it should be now. ``is_waiting``: somebody may still act on it.

    ``text`` is for notifications and screen readers; ``outcome`` says what became of the subject.
    """

    text: str
    blocks: list[dict[str, Any]]
    is_waiting: bool
    outcome: str = ""

    @property
    def hash(self) -> str:
        return hashlib.sha256(json.dumps([self.text, self.blocks]).encode()).hexdigest()


def render(message: SlackMessage) -> RenderedMessage:
    """In as much detail as fits; whole, or without buttons that decide."""
    with in_language_of_message(message):
        return _as_far_as_it_fits(message)


def _as_far_as_it_fits(message: SlackMessage) -> RenderedMessage:
    for detail in (WHOLE, *DETAILS) if _may_be_whole(message) else DETAILS:
        rendered = _render(message, detail)
        if len(json.dumps(rendered.blocks, ensure_ascii=False)) <= MESSAGE_MOST:
            break
    return rendered


def _may_be_whole(message: SlackMessage) -> bool:
    if message.question is not None:
        return full_display.question_coverage(message.question, full_display.SLACK).is_complete
    assert message.transaction is not None
    return full_display.coverage(message.transaction, full_display.SLACK).is_complete


def _render(message: SlackMessage, detail: Detail) -> RenderedMessage:
    if message.question is not None:
        return _render_question(message, detail)
    return _render_transaction(message, detail)


def _render_transaction(message: SlackMessage, detail: Detail) -> RenderedMessage:
    row = message.transaction
    assert row is not None
    is_waiting = row.state == State.PREPARED
    blocks: list[Block] = [
        *reason_for_posting(message),
        *transaction.content(row, detail),
        transaction.actions(message, row, detail),
    ]
    waits = is_waiting and (why_stopped(row) or _("waits for sign-off"))
    outcome = waits or labels.outcome(row)
    text = escaped(f"{one_line(row.headline)}: {outcome}")
    return RenderedMessage(text, as_dicts(blocks), is_waiting, outcome)


def _render_question(message: SlackMessage, detail: Detail) -> RenderedMessage:
    row = message.question
    assert row is not None
    is_waiting = row.state == QuestionState.OPEN
    blocks: list[Block] = [
        *reason_for_posting(message),
        *question.content(row, detail),
        question.actions(message, row, detail),
    ]
    outcome = _("waits for an answer") if is_waiting else labels.question_outcome(row)
    text = _("{name} asks: {question} ({outcome})").format(
        name=one_line(row.asked_by_name), question=one_line(row.headline), outcome=outcome
    )
    return RenderedMessage(escaped(text), as_dicts(blocks), is_waiting, outcome)
