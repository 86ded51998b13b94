"""The job behind a click: who it was, whether they may, the one verb, and an honest answer."""

from __future__ import annotations

import logging
import time
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, LinkButtonElement

from a2a import json_schemas
from a2a.models import Question, QuestionState
from approvals import decisions, words
from approvals.answer_forms import Unreadable
from approvals.models import SlackMessage, SlackWorkspace
from approvals.slack import blocks, clicks, copies, home, identities, modals
from approvals.slack.blocks import desk_link
from approvals.slack.buttons import Press
from approvals.slack.calls import NETWORK, Unreachable, call, error_of
from approvals.slack.credentials import NoSuchApp, SlackApp, apps
from approvals.slack.orders import Order
from approvals.slack.text import escaped, plain, rich, shortened
from approvals.slack.text import words as said_words
from approvals.slack.workspaces import app_for, workspace_of
from ledger import jobs, sweeper
from ledger.deliveries import NotNow
from ledger.errors import LedgerError, NotFound
from ledger.models import Transaction

logger = logging.getLogger(__name__)

VIA = "slack"
# Seconds to wait for a database that does not answer, before saying so.
PATIENCE_S = (0.5, 1, 2, 4, 8)
LATER = "Assent's database does not answer. Your click is kept: the message will say what became."
NO_DATABASE = "Assent's database does not answer. Nothing was decided: try again in a minute."


class Refused(Exception):
    """Said to the person who clicked, and to nobody else. ``page`` of the desk is offered."""

    def __init__(self, text: str, page: str = "") -> None:
        super().__init__(text)
        self.page = page


def react(text: str) -> None:
    """Do what somebody asked for in Slack. May run twice: a decision is one all the same."""
    order = Order.from_text(text)
    is_kept = order.kind == "press"
    is_ours = not is_kept
    for wait_s in (*PATIENCE_S, None):
        close_old_connections()
        try:
            is_ours = is_ours or clicks.claim(order)
            if is_ours:
                _react(order)
            if is_ours and is_kept:
                clicks.done(order)
            return
        except (OperationalError, InterfaceError) as failure:
            connection.close()
            if wait_s is None:
                logger.error("a click in Slack found no database: %s", failure)
                tell(order, LATER if is_ours and is_kept else NO_DATABASE)
                return
            time.sleep(wait_s)


jobs.JOBS["react"] = react
sweeper.further_jobs["react"] = clicks.due


def _react(order: Order) -> None:
    try:
        app, workspace = _signed_for(order)
        match order.kind:
            case "home":
                _show_home(app, workspace, order)
            case "form":
                _show_form(app, workspace, order)
            case "press":
                _press(workspace, order)
            case _:
                raise Refused(order.text)
    except Refused as refusal:
        tell(order, str(refusal), refusal.page)


def _signed_for(order: Order) -> tuple[SlackApp, SlackWorkspace]:
    """The app and the workspace that it is about, if Slack signed for that app.

    A button names its own workspace: the bot's, which in a shared channel is not the clicker's.
    Raises ``Refused``.
    """
    signed = _signed(order)
    if order.press is not None:
        workspace = SlackWorkspace.objects.filter(team_id=order.press.team).first()
    else:
        workspace = workspace_of(signed[0], order.team) if signed else None
    if workspace is None:
        raise Refused("This workspace is not connected to Assent. Nothing was decided.")
    try:
        app = app_for(workspace)
    except (NoSuchApp, SlackApiError, *NETWORK):
        app = None
    if app is None or app not in signed:
        raise Refused("This button is of another workspace. Nothing was decided.")
    return app, workspace


def _signed(order: Order) -> list[SlackApp]:
    return [app for app in apps() if app.fingerprint in order.apps]


def _person(workspace: SlackWorkspace, order: Order) -> User:
    person = identities.person_behind(workspace, order.user, order.home_team)
    if person is None:
        raise Refused(
            "Assent does not know who you are at the desk, so nothing was decided. "
            "Link your account, once.",
            desk_link("slack"),
        )
    return person


# --- presses ---------------------------------------------------------------------------------


def _press(workspace: SlackWorkspace, order: Order) -> None:
    press = order.press
    assert press is not None
    copy = _copy(workspace, press, order)
    try:
        person = _person(workspace, order)
        if copy.question is not None:
            _answer(person, copy.question, press, order)
        else:
            assert copy.transaction is not None
            _decide(person, copy.transaction, press, order.text)
    except LedgerError as refusal:
        raise Refused(_unchanged(refusal)) from None
    finally:
        _rewrite(copy, order)


def _unchanged(refusal: LedgerError) -> str:
    return f"{refusal.detail.rstrip('.')}. Your click changed nothing."


def _copy(workspace: SlackWorkspace, press: Press, order: Order) -> SlackMessage:
    """The message that was clicked, if it is one of ours about something this workspace sees."""
    related = ("workspace", "transaction", "question__task__skill")
    found = SlackMessage.objects.select_related(*related)
    copy = found.filter(pk=press.copy, workspace=workspace).first()
    subject = copy and (copy.transaction or copy.question)
    if copy is None or subject is None or str(subject.pk) != press.subject:
        raise Refused("There is no such message any more. Nothing was decided.")
    if copy.channel and order.channel != copy.channel:
        raise Refused("This button belongs into another channel. Nothing was decided.")
    if not workspace.tenants.filter(slug=subject.tenant).exists():
        raise Refused(f"This workspace does not serve {subject.tenant} any more.")
    return copy


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
    if press.verb == "choose":
        choices = blocks.choices_of(question.form)
        if not 0 <= press.choice < len(choices):
            raise Refused("There is no such answer. Nothing was answered.")
        value = choices[press.choice][1]
    else:
        value = _filled_in(order, question)
    was_mine = question.answered_by == f"user:{person.get_username()}"
    decisions.answer(person, question.pk, value, via=VIA)
    if was_mine:
        raise Refused(f"You had answered already: {words.plain(question.answer)[:200]}")


def _filled_in(order: Order, question: Question) -> Any:
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
        return modals.first_error(str(refusal))
    return modals.errors_for(json_schemas.misfits(question.form, value), question.form)


def _rewrite(copy: SlackMessage, order: Order) -> None:
    """Whatever came of it, the message that was clicked says how things stand."""
    try:
        if not copy.ts and order.ts:
            copies.adopt(copy, order.channel, order.ts)
        if copy.ts and order.ts and order.ts != copy.ts:
            copy.refresh_from_db()
            copies.rewrite_stray(copy, order.channel, order.ts)
        else:
            copies.refresh(copy.pk)
    except (NotNow, Unreachable, SlackApiError, NoSuchApp) as failure:
        logger.info("the message will be rewritten by its delivery: %s", failure)


# --- what is shown ---------------------------------------------------------------------------


def _show_home(app: SlackApp, workspace: SlackWorkspace, order: Order) -> None:
    person = identities.person_behind(workspace, order.user, order.home_team)
    view = home.view_for(person) if person is not None else home.for_a_stranger()
    _try(app, "views.publish", user_id=order.user, view=view.to_dict())


def _show_form(app: SlackApp, workspace: SlackWorkspace, order: Order) -> None:
    """The form instead of "One moment…", or why there is none."""
    assert order.press is not None
    try:
        view = _form(workspace, order, order.press)
    except Refused as refusal:
        view = modals.trouble(str(refusal))
    except LedgerError as refusal:
        view = modals.trouble(_unchanged(refusal))
    _try(app, "views.update", view_id=order.view, view=view.to_dict())


def _form(workspace: SlackWorkspace, order: Order, press: Press) -> Any:
    copy = _copy(workspace, press, order)
    person = _person(workspace, order)
    question = copy.question
    if question is None:
        raise NotFound("There is no such question.")
    if question.state != QuestionState.OPEN:
        raise Refused(f"{words.what_became_of_it(question)}.")
    decisions.check_may_answer(person, question)
    return modals.form(question, press, order.channel, order.ts)


def count_for(order: Order) -> str:
    """What ``/assent`` says."""
    signed = _signed(order)
    workspace = workspace_of(signed[0], order.team) if signed else None
    person = workspace and identities.person_behind(workspace, order.user, order.home_team)
    if not person:
        return f"Assent does not know who you are. Link your account once: {desk_link('slack')}"
    return f"{home.in_words(len(home.waiting_for(person)))} {settings.PUBLIC_URL}"


# --- answers ---------------------------------------------------------------------------------


def tell(order: Order, text: str, page: str = "") -> None:
    """For the one who clicked, where they clicked; else as a direct message."""
    link = LinkButtonElement(
        text=plain("Open the desk"), url=page or desk_link("inbox"), action_id="open"
    )
    said = [rich(said_words(shortened(text, 2000))), ActionsBlock(elements=[link])]
    what = {
        "text": escaped(text, 2000),
        "blocks": [block.to_dict() for block in said],
        "parse": copies.PARSE,
    }
    for app in _signed(order):
        here = {"channel": order.channel, "user": order.user}
        if order.channel and _try(app, "chat.postEphemeral", **here, **what):
            return
        if _try(app, "chat.postMessage", channel=order.user, **what):
            return


def _try(app: SlackApp, method: str, **arguments: Any) -> bool:
    """Three times, over some seconds; then the person will have looked at the message itself."""
    for wait_s in (0, 1, 3):
        time.sleep(wait_s)
        try:
            call(app, method, **arguments)
            return True
        except SlackApiError as refusal:
            logger.warning("Slack refused %s: %s", method, error_of(refusal))
            return False
        except (NotNow, Unreachable) as failure:
            logger.info("%s: %s", method, failure)
    return False
