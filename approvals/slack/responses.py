"""What people in Slack are shown because of what they did; in a queue that may wait for Slack."""

from __future__ import annotations

import logging
import time

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, LinkButtonElement
from slack_sdk.models.views import View

from a2a.models import QuestionState
from approvals import decisions, words
from approvals.models import SlackMessage
from approvals.slack import copies, home, identities, modals
from approvals.slack.blocks import desk_link
from approvals.slack.calls import Unreachable, call, error_of
from approvals.slack.credentials import SlackApp
from approvals.slack.orders import Order
from approvals.slack.origins import (
    Refused,
    message_behind,
    person_behind,
    signed,
    workspace_behind,
)
from approvals.slack.text import escaped, plain, rich, shortened
from approvals.slack.text import words as said
from approvals.slack.workspaces import workspace_of
from ledger import jobs
from ledger.deliveries import NotNow
from ledger.errors import LedgerError

logger = logging.getLogger(__name__)

NO_DATABASE = "Assent's database does not answer. Nothing was decided: try again in a minute."
PAUSES_S = (0, 1, 3)  # before each try to tell somebody something


def ask_for(order: Order) -> None:
    """Have it done by a courier; here and now if there is no queue."""
    text = order.as_text()
    if not jobs.enqueue("respond", text):
        respond(text)


def respond(text: str) -> None:
    """Show somebody what they asked for or have to hear. Losing it changes no decision."""
    order = Order.from_text(text)
    close_old_connections()
    try:
        _respond(order)
    except Refused as refusal:
        tell(order, str(refusal), refusal.page)
    except (OperationalError, InterfaceError) as failure:
        connection.close()
        logger.warning("no database to answer somebody in Slack from: %s", failure)
        if order.kind != "rewrite":
            tell(order, NO_DATABASE)


jobs.JOBS["respond"] = respond


def _respond(order: Order) -> None:
    match order.kind:
        case "home":
            _show_home(order)
        case "form":
            _show_form(order)
        case "rewrite":
            _rewrite(order)
        case _:
            tell(order, order.text, order.page)


def unchanged(refusal: LedgerError) -> str:
    return f"{refusal.detail.rstrip('.')}. Your click changed nothing."


def _show_home(order: Order) -> None:
    app, workspace = workspace_behind(order)
    person = identities.person_behind(workspace, order.user, order.home_team)
    view = home.view_for(person) if person is not None else home.for_a_stranger()
    _try(app, "views.publish", user_id=order.user, view=view.to_dict())


def _show_form(order: Order) -> None:
    """The form instead of "One moment…", or why there is none."""
    try:
        view = _form(order)
    except Refused as refusal:
        view = modals.trouble(str(refusal))
    except LedgerError as refusal:
        view = modals.trouble(unchanged(refusal))
    app, _ = workspace_behind(order)
    if not _try(app, "views.update", view_id=order.view, view=view.to_dict()):
        sorry = modals.trouble("This form cannot be shown in Slack: answer on the desk.")
        _try(app, "views.update", view_id=order.view, view=sorry.to_dict())


def _form(order: Order) -> View:
    assert order.press is not None
    _, workspace = workspace_behind(order)
    copy = message_behind(workspace, order.press, order)
    person = person_behind(workspace, order)
    question = copy.question
    if question is None:
        raise Refused("There is no such question.")
    if question.state != QuestionState.OPEN:
        raise Refused(f"{words.what_became_of_it(question)}.")
    decisions.check_may_answer(person, question)
    return modals.form(question, order.press, order.channel, order.ts)


def count_for(order: Order) -> str:
    """What ``/assent`` says."""
    mine = signed(order)
    workspace = workspace_of(mine[0], order.team) if mine else None
    person = workspace and identities.person_behind(workspace, order.user, order.home_team)
    if not person:
        return f"Assent does not know who you are. Link your account once: {desk_link('slack')}"
    return f"{home.in_words(len(home.waiting_for(person)))} {settings.PUBLIC_URL}"


def _rewrite(order: Order) -> None:
    """Whatever came of a click, the message that was clicked says how things stand."""
    related = ("workspace", "transaction", "question__task")
    found = SlackMessage.objects.select_related(*related)
    copy = found.filter(pk=order.press.copy).first() if order.press else None
    if copy is None or not order.ts or copy.channel not in {"", order.channel}:
        return
    try:
        if copies.is_known(copy, order.channel, order.ts):
            copies.refresh(copy.pk)
        else:
            copies.rewrite_stray(copy, order.channel, order.ts)
    except Exception as failure:
        logger.info("the message is left to its deliveries: %s", failure)


def tell(order: Order, text: str, page: str = "") -> None:
    """For the one who clicked, where they clicked; else as a direct message."""
    link = LinkButtonElement(
        text=plain("Open the desk"), url=page or desk_link("inbox"), action_id="open"
    )
    blocks = [rich(said(shortened(text, 2000))), ActionsBlock(elements=[link])]
    what = {
        "text": escaped(text, 2000),
        "blocks": [block.to_dict() for block in blocks],
        "parse": copies.PARSE,
    }
    for app in signed(order):
        here = {"channel": order.channel, "user": order.user}
        if order.channel and _try(app, "chat.postEphemeral", **here, **what):
            return
        if _try(app, "chat.postMessage", channel=order.user, **what):
            return


def _try(app: SlackApp, method: str, **arguments: object) -> bool:
    """Three times, over some seconds; then the person will have looked at the message itself."""
    for pause_s in PAUSES_S:
        time.sleep(pause_s)
        try:
            call(app, method, **arguments)
            return True
        except SlackApiError as refusal:
            logger.warning("Slack refused %s: %s", method, error_of(refusal))
            return False
        except (NotNow, Unreachable) as failure:
            logger.info("%s: %s", method, failure)
    return False
