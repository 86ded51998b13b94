"""The job behind a click: whether it counts, the one verb, and then whoever has to hear of it.

It talks to nobody but the database, so that no commit waits for Slack behind it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import chain, repeat
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from a2a.models import Question, QuestionState
from a2a.validation import json_schemas
from approvals.desk import decisions, labels
from approvals.desk.answer_forms import Unreadable
from approvals.models import SlackMessage
from approvals.people.principals import principal_of
from approvals.slack.interactions import click_queue, replies
from approvals.slack.interactions.authorization import (
    Refused,
    message_behind,
    person_behind,
    workspace_behind,
)
from approvals.slack.interactions.click_queue import Claim
from approvals.slack.interactions.commands import Order
from approvals.slack.rendering import blocks, modals
from approvals.slack.rendering.signed_values import Press
from ledger.errors import LedgerError
from ledger.models import Transaction
from ledger.workers import sweeper

logger = logging.getLogger(__name__)
T = TypeVar("T")

VIA = "slack"
# Seconds to wait for a database that does not answer, before saying so.
PATIENCE_S = (0.5, 1, 2, 4, 8)
LATER = (
    "Assent's database does not answer. Your click may still be carried out: look at the message, "
    "and press again if it has not changed in a minute."
)
FAILED = "Assent failed at this. Look at the message: it says how things stand."


def react(text: str) -> None:
    """Carry out one click, unless another worker is at it or has done it."""
    order = _order_in(text)
    if order is None:
        return
    try:
        claim = _patiently(lambda: click_queue.claim(order))
        if claim is not None:
            _carry_out(claim)
    except (OperationalError, InterfaceError) as failure:
        logger.error("a click in Slack found no database: %s", failure)
        replies.ask_for(replace(order, kind="tell", text=LATER))


def register() -> None:
    sweeper.register_job("react", react, click_queue.due)


def _order_in(subject: str) -> Order | None:
    """None for one of another version of Assent, which cannot be read."""
    text = _patiently(lambda: click_queue.written(subject))
    try:
        return Order.from_text(text)
    except (TypeError, ValueError) as failure:
        logger.error("a click in Slack cannot be read: %s", failure)
        click_queue.give_up_unreadable(text)
        return None


def _patiently(work: Callable[[], T]) -> T:
    """Again while the database does not answer, for some seconds; then raises what it raised."""
    for wait_s in PATIENCE_S:
        close_old_connections()
        try:
            return work()
        except (OperationalError, InterfaceError):
            connection.close()
            time.sleep(wait_s)
    return work()


def _carry_out(claim: Claim) -> None:
    """Whoever has to hear of it hears of it when it is settled, and only then."""
    order, answer = claim.order, replace(claim.order, kind="rewrite")
    try:
        tries = chain([claim], repeat(replace(claim, is_again=True)))
        _patiently(lambda: _press(next(tries)))
    except Refused as refusal:
        answer = replace(order, kind="tell", text=str(refusal), page=refusal.page)
    except (OperationalError, InterfaceError) as failure:
        logger.error("a click in Slack lost its database: %s", failure)
        click_queue.let_go(claim)
        if claim.tries == 1:
            replies.ask_for(replace(order, kind="tell", text=LATER))
        return
    except Exception:
        logger.exception("a click in Slack could not be carried out")
        answer = replace(order, kind="tell", text=FAILED)
    _patiently(lambda: click_queue.done(claim))
    replies.ask_for(answer)
    if answer.kind == "tell":
        replies.ask_for(replace(order, kind="rewrite"))


def _press(claim: Claim) -> None:
    """Raises ``Refused``."""
    order, press = claim.order, claim.order.press
    assert press is not None
    _, workspace = workspace_behind(order)
    copy = message_behind(workspace, press, order)
    person = person_behind(workspace, order)
    try:
        _act(person, copy, press, claim)
    except LedgerError as refusal:
        raise Refused(replies.unchanged(refusal)) from None


def _act(person: User, copy: SlackMessage, press: Press, claim: Claim) -> None:
    if copy.question is not None:
        _answer(person, copy.question, press, claim)
    else:
        assert copy.transaction is not None
        _decide(person, copy.transaction, press, claim)


def _decide(person: User, row: Transaction, press: Press, claim: Claim) -> None:
    votes = row.decisions.filter(principal=str(principal_of(person)))
    had_voted = any(_was_before(claim, vote.at) for vote in votes)
    text = claim.order.text
    if press.verb == "approve":
        after = decisions.approve(person, row.pk, digest=press.digest, via=VIA, typed=text)
    elif press.verb == "reject":
        after = decisions.reject(person, row.pk, digest=press.digest, via=VIA, reason=text)
    else:
        raise Refused(f"There is no {press.verb} for a transaction.")
    if had_voted:
        raise Refused(f"You had decided already. It is {after.get_state_display()}.")


def _was_before(claim: Claim, at: datetime) -> bool:
    """Not what an earlier try at this very click did."""
    return claim.is_first or at < claim.clicked_at


def _answer(person: User, question: Question, press: Press, claim: Claim) -> None:
    if press.digest != blocks.digest_of(question):
        raise Refused("The question is not the one that was shown. Nothing was answered.")
    was_mine = question.answered_by == str(principal_of(person)) and (
        question.ended_at is not None and _was_before(claim, question.ended_at)
    )
    decisions.answer(person, question.pk, _value(question, press, claim.order), via=VIA)
    if was_mine:
        raise Refused(f"You had answered already: {labels.plain(question.answer)[:200]}")


def _value(question: Question, press: Press, order: Order) -> Any:
    if press.verb == "choose":
        choices = blocks.choices_of(question.form)
        if not 0 <= press.choice < len(choices):
            raise Refused("There is no such answer. Nothing was answered.")
        return choices[press.choice][1]
    try:
        return modals.answer_of(order.state, question.form)
    except Unreadable as refusal:
        raise Refused(f"{refusal} Nothing was answered.") from None


def misfits(press: Press, state: dict[str, Any]) -> dict[str, str]:
    """What is wrong with an answer, for the modal; nothing when the question is not open."""
    question = Question.objects.filter(pk=UUID(press.subject)).first()
    if question is None or question.state != QuestionState.OPEN:
        return {}
    try:
        value = modals.answer_of(state, question.form)
    except Unreadable as refusal:
        return modals.error_at(refusal.field, str(refusal), question.form)
    return modals.errors_for(json_schemas.misfits(question.form, value), question.form)
