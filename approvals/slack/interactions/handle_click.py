"""The job ``react``: check who clicked what, decide or answer, and have the person told.

It talks to the database only, so that no decision waits for Slack.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.utils.translation import gettext as _, gettext_noop

from a2a import origins
from a2a.models import Question
from approvals.desk import decisions
from approvals.people import principal_of
from approvals.presentation import in_words, labels
from approvals.slack.interactions import command_queue, more, replies, stops
from approvals.slack.interactions.authorization import (
    Refused,
    check_message,
    check_person,
    check_workspace,
    refused_by_verb,
)
from approvals.slack.interactions.command_queue import Claim
from approvals.slack.interactions.commands import Click, Reply, ShowHome, Tell, UpdateMessage
from approvals.slack.interactions.reader import in_language_of_reader
from approvals.slack.rendering import choices_of, digest_of, modals
from ledger.errors import LedgerError
from ledger.foundation.backoff import Backoff
from ledger.models import Transaction
from ledger.principals import Surface
from ledger.workers import register_job

logger = logging.getLogger(__name__)
T = TypeVar("T")

VIA = Surface.SLACK
DATABASE_DOWN = (OperationalError, InterfaceError)
# Seconds between the attempts while the database does not answer.
PATIENCE_S = (0.5, 1, 2, 4, 8)
BACKOFF = Backoff(first=timedelta(seconds=5), longest=command_queue.LEASE)
FAILED = gettext_noop("Assent failed at this. Look at the message: it says how things stand.")


def handle(click_id: UUID) -> None:
    """Carry out one click, unless it is done or another worker handles it."""
    claim = command_queue.claim(Click, click_id)
    if claim is not None:
        _carry_out(claim)


def register() -> None:
    register_job(Click.queue, handle, UUID, partial(command_queue.due, Click))


def _carry_out(claim: Claim[Click]) -> None:
    """Decide or answer; tell the person only when the outcome is certain."""
    click = claim.command
    if click.button.message:
        shown: Reply = UpdateMessage(source=click.source, message=click.button.message)
    else:
        shown = ShowHome(source=click.source)
    answers = [shown]
    try:
        outcome = _with_retries(lambda is_retry: _check_and_act(replace(claim, is_retry=is_retry)))
        if outcome:
            answers.insert(0, Tell(source=click.source, text=outcome))
    except Refused as refusal:
        answers.insert(0, Tell(source=click.source, text=str(refusal), page=refusal.page))
    except DATABASE_DOWN as failure:
        logger.error("a click in Slack lost its database: %s", failure)
        _try_again_later(claim)
        return
    except Exception:
        logger.exception("a click in Slack could not be carried out")
        answers.insert(0, Tell(source=click.source, text=FAILED))
    _with_retries(lambda is_retry: command_queue.done(claim, *answers))


def _try_again_later(claim: Claim[Click]) -> None:
    """Each time a little later. If not even this can be stored, when the lease has run out."""
    with suppress(*DATABASE_DOWN):
        connection.close()
        command_queue.release(claim, BACKOFF.wait(claim.tries))
    if claim.tries == 1:
        replies.enqueue(Tell(source=claim.command.source, text=replies.LATER))


def _with_retries(work: Callable[[bool], T]) -> T:
    """Try again while the database does not answer, for some seconds; then raise what ``work``
    raised, which is told whether this is a retry."""
    is_retry = False
    for wait_s in PATIENCE_S:
        close_old_connections()
        try:
            return work(is_retry)
        except DATABASE_DOWN:
            connection.close()
            time.sleep(wait_s)
        is_retry = True
    return work(is_retry)


def _check_and_act(claim: Claim[Click]) -> str:
    """The text to tell who clicked, or none. Raises ``Refused``. Both in their language."""
    with in_language_of_reader(claim.command.source):
        if claim.command.button.verb not in stops.VERBS:
            _check_and_act_on(claim)
            return ""
        try:
            return stops.act(claim)
        except LedgerError as error:
            raise refused_by_verb(error) from None


def _check_and_act_on(claim: Claim[Click]) -> None:
    click = claim.command
    button, source = click.button, click.source
    _app, workspace = check_workspace(source, button)
    message = check_message(workspace, button, source)
    person = check_person(workspace, source)
    try:
        if message.question is not None:
            _answer(person, message.question, claim)
        else:
            assert message.transaction is not None
            _decide(person, message.transaction, claim)
    except LedgerError as error:
        raise refused_by_verb(error) from None


def _decide(person: User, row: Transaction, claim: Claim[Click]) -> None:
    click = claim.command
    button, typed = click.button, click.typed
    if button.verb == "more":
        more.act(person, row, claim)
        return
    earlier = row.decisions.filter(principal=str(principal_of(person)))
    had_decided = any(_is_older(decision.at, claim) for decision in earlier)
    if button.verb == "approve":
        after = decisions.approve(person, row.pk, digest=button.digest, via=VIA, typed=typed)
    elif button.verb == "reject":
        reason = _reason(row, click)
        after = decisions.reject(person, row.pk, digest=button.digest, via=VIA, reason=reason)
    else:
        text = _("There is no {verb} for a transaction.")
        raise Refused(text.format(verb=button.verb))
    if had_decided:
        text = _("You had decided already. It is {state}.")
        raise Refused(text.format(state=in_words(after.get_state_display())))


def _reason(row: Transaction, click: Click) -> str:
    """The chosen reason of those that the agent offers, then the typed text."""
    index = modals.offered_index(click.inputs)
    if index is None:
        return click.typed
    asked_as = origins.asked_as(row)
    offered = asked_as.reject_options[index : index + 1] if asked_as else []
    return "\n".join(filter(None, [*(option.text for option in offered), click.typed]))


def _answer(person: User, question: Question, claim: Claim[Click]) -> None:
    click = claim.command
    if click.button.digest != digest_of(question):
        raise Refused(_("The question is not the one that was shown. Nothing was answered."))
    had_answered = question.answered_by == str(principal_of(person)) and (
        question.ended_at is not None and _is_older(question.ended_at, claim)
    )
    decisions.answer(person, question.pk, _value(question, click), via=VIA)
    if had_answered:
        text = _("You had answered already: {answer}")
        raise Refused(text.format(answer=labels.plain(question.answer)[:200]))


def _is_older(at: datetime, claim: Claim[Click]) -> bool:
    """True if something happened before this click, and not by an earlier attempt to handle it."""
    return claim.is_first or at < claim.created_at


def _value(question: Question, click: Click) -> Any:
    """The answer that the click gives. Raises ``Refused``."""
    if click.button.verb == "choose":
        choices = choices_of(question.form)
        if not 0 <= click.button.choice < len(choices):
            raise Refused(_("There is no such answer. Nothing was answered."))
        return choices[click.button.choice][1]
    value, form = modals.answer_of(click.inputs, question.form)
    if faulty := next((field for field in form.every() if field.errors), None):
        text = _("{problem} Nothing was answered.")
        raise Refused(text.format(problem=f"{faulty.label}: {faulty.errors[0]}"))
    return value
