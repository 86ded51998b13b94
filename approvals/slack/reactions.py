"""The job behind a click: whether it counts, the one verb, and then whoever has to hear of it.

It talks to nobody but the database, so that no commit waits for Slack behind it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from a2a import json_schemas
from a2a.models import Question, QuestionState
from approvals import decisions, words
from approvals.answer_forms import Unreadable
from approvals.models import SlackMessage
from approvals.slack import blocks, clicks, modals, responses
from approvals.slack.buttons import Press
from approvals.slack.orders import Order
from approvals.slack.origins import Refused, message_behind, person_behind, workspace_behind
from ledger import jobs, sweeper
from ledger.errors import LedgerError
from ledger.models import Transaction

logger = logging.getLogger(__name__)

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
    order = Order.from_text(text)
    try:
        _patiently(lambda: _carry_out(order))
    except (OperationalError, InterfaceError) as failure:
        logger.error("a click in Slack found no database: %s", failure)
        responses.ask_for(replace(order, kind="tell", text=LATER))
    except Exception:
        logger.exception("a click in Slack could not be carried out")
        responses.ask_for(replace(order, kind="tell", text=FAILED))
        clicks.done(order)


jobs.JOBS["react"] = react
sweeper.further_jobs["react"] = clicks.due


def _patiently(work: Callable[[], None]) -> None:
    """Again while the database does not answer, for some seconds; then raises what it raised."""
    for wait_s in PATIENCE_S:
        close_old_connections()
        try:
            work()
            return
        except (OperationalError, InterfaceError):
            connection.close()
            time.sleep(wait_s)
    work()


def _carry_out(order: Order) -> None:
    if not clicks.claim(order):
        return
    try:
        _press(order)
    except Refused as refusal:
        responses.ask_for(replace(order, kind="tell", text=str(refusal), page=refusal.page))
    except (OperationalError, InterfaceError):
        clicks.let_go(order)
        raise
    responses.ask_for(replace(order, kind="rewrite"))
    clicks.done(order)


def _press(order: Order) -> None:
    """Raises ``Refused``."""
    press = order.press
    assert press is not None
    _, workspace = workspace_behind(order)
    copy = message_behind(workspace, press, order)
    person = person_behind(workspace, order)
    try:
        _act(person, copy, press, order)
    except LedgerError as refusal:
        raise Refused(responses.unchanged(refusal)) from None


def _act(person: User, copy: SlackMessage, press: Press, order: Order) -> None:
    if copy.question is not None:
        _answer(person, copy.question, press, order)
    else:
        assert copy.transaction is not None
        _decide(person, copy.transaction, press, order.text)


def _decide(person: User, row: Transaction, press: Press, text: str) -> None:
    had_voted = row.decisions.filter(principal=f"user:{person.get_username()}").exists()
    if press.verb == "approve":
        after = decisions.approve(person, row.pk, digest=press.digest, via=VIA, typed=text)
    elif press.verb == "reject":
        after = decisions.reject(person, row.pk, digest=press.digest, via=VIA, reason=text)
    else:
        raise Refused(f"There is no {press.verb} for a transaction.")
    if had_voted:
        raise Refused(f"You had decided already. It is {after.get_state_display()}.")


def _answer(person: User, question: Question, press: Press, order: Order) -> None:
    if press.digest != blocks.digest_of(question):
        raise Refused("The question is not the one that was shown. Nothing was answered.")
    was_mine = question.answered_by == f"user:{person.get_username()}"
    decisions.answer(person, question.pk, _value(question, press, order), via=VIA)
    if was_mine:
        raise Refused(f"You had answered already: {words.plain(question.answer)[:200]}")


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
