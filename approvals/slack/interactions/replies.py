"""What people in Slack are shown because of what they did; in a queue that may wait for Slack."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Timer
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, LinkButtonElement
from slack_sdk.models.views import View

from a2a.models import QuestionState
from approvals.desk import decisions, labels
from approvals.models import SlackMessage
from approvals.slack import identities
from approvals.slack.api.calls import Patience, Unreachable, call, error_of
from approvals.slack.api.credentials import SlackApp
from approvals.slack.api.workspaces import workspace_of
from approvals.slack.interactions.authorization import (
    Refused,
    message_behind,
    person_behind,
    signed,
    workspace_behind,
)
from approvals.slack.interactions.commands import Order
from approvals.slack.messages import messages
from approvals.slack.rendering import home, modals
from approvals.slack.rendering.blocks import desk_link
from approvals.slack.rendering.text import escaped, plain, rich, shortened, words as said
from ledger.errors import LedgerError
from ledger.events.outbox import NotNow
from ledger.workers import jobs, queues

logger = logging.getLogger(__name__)

NO_DATABASE = "Assent's database does not answer. Nothing was decided: try again in a minute."
NO_MODAL = "Slack did not open the form. Nothing was decided: press the button again."
NO_FORM = "This form cannot be shown in Slack: answer on the desk."
# How often somebody is answered who could not be, and how long until the next try.
MOST_TRIES, WAIT_S = 6, 6.0

# Without a queue: whoever decided must not wait for Slack.
_couriers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="slack-courier")
# What is tried again, so that a test can end it.
waiting: set[Timer] = set()


def ask_for(order: Order) -> None:
    """Have it done by a courier: one with a queue, else a thread of this process."""
    text = order.as_text()
    if not jobs.enqueue("respond", text, label=order.label):
        _couriers.submit(_respond_here, text)


def _respond_here(text: str) -> None:
    try:
        respond(text)
    finally:
        connection.close()


def respond(text: str) -> None:
    """Show somebody what they asked for or have to hear. Losing it changes no decision."""
    order = Order.from_text(text)
    close_old_connections()
    try:
        _respond(order)
    except Refused as refusal:
        _say_so(order, str(refusal), refusal.page)
    except (OperationalError, InterfaceError) as failure:
        connection.close()
        logger.warning("no database to answer somebody in Slack from: %s", failure)
        if order.kind == "tell":
            _again_later(order, failure)
        else:
            _say_so(order, NO_DATABASE)
    except (NotNow, Unreachable) as failure:
        _again_later(order, failure)
    except SlackApiError as refusal:
        logger.warning("Slack refused a %s: %s", order.kind, error_of(refusal))


def register() -> None:
    queues.register_job("respond", respond)


def _again_later(order: Order, failure: Exception) -> None:
    """By a timer: the courier has others to serve."""
    logger.info("a %s in Slack has to wait: %s", order.kind, failure)
    if order.tries + 1 >= MOST_TRIES or order.kind == "rewrite":
        return  # what is left to do then is done by the deliveries
    wait_s = max(WAIT_S, failure.left.total_seconds() if isinstance(failure, Patience) else 0)

    def again() -> None:
        waiting.discard(timer)
        ask_for(replace(order, tries=order.tries + 1))

    timer = Timer(min(wait_s, 60), again)
    timer.daemon = True
    waiting.add(timer)
    timer.start()


def _respond(order: Order) -> None:
    """Raises ``Refused, NotNow, Unreachable, SlackApiError``."""
    match order.kind:
        case "home":
            _show_home(order)
        case "form":
            _show_form(order)
        case "rewrite":
            _rewrite(order)
        case _:
            _tell(order, order.text, order.page)


def _say_so(order: Order, text: str, page: str = "") -> None:
    """Where the person looks: in the tab or in the modal. A message says it by itself."""
    for app in signed(order)[:1]:
        if order.kind == "home":
            view = home.with_words(text)
            _quietly(app, "views.publish", user_id=order.user, view=view.to_dict())
        elif order.kind == "form":
            view = modals.trouble(text, page)
            _quietly(app, "views.update", external_id=order.view, view=view.to_dict())


def _quietly(app: SlackApp, method: str, **arguments: object) -> None:
    try:
        call(app, method, **arguments)
    except (NotNow, Unreachable, SlackApiError) as failure:
        logger.info("%s: %s", method, failure)


def unchanged(refusal: LedgerError) -> str:
    return f"{refusal.detail.rstrip('.')}. Your click changed nothing."


def _show_home(order: Order) -> None:
    app, workspace = workspace_behind(order)
    person = identities.person_behind(workspace, order.user, order.home_team)
    view = home.view_for(person) if person is not None else home.for_a_stranger()
    call(app, "views.publish", user_id=order.user, view=view.to_dict())


def _show_form(order: Order) -> None:
    """The form instead of "One moment…", or why there is none."""
    app, _ = workspace_behind(order)
    try:
        view = _form(order)
    except Refused as refusal:
        view = modals.trouble(str(refusal), refusal.page)
    except LedgerError as refusal:
        view = modals.trouble(unchanged(refusal))
    try:
        call(app, "views.update", external_id=order.view, view=view.to_dict())
    except SlackApiError as refusal:
        if error_of(refusal) == "not_found":
            ask_for(replace(order, kind="tell", text=NO_MODAL))
            return
        logger.warning("Slack refused a form: %s", error_of(refusal))
        sorry = modals.trouble(NO_FORM).to_dict()
        call(app, "views.update", external_id=order.view, view=sorry)


def _form(order: Order) -> View:
    assert order.press is not None
    _, workspace = workspace_behind(order)
    copy = message_behind(workspace, order.press, order)
    person = person_behind(workspace, order)
    question = copy.question
    if question is None:
        raise Refused("There is no such question.")
    if question.state != QuestionState.OPEN:
        raise Refused(f"{labels.what_became_of_it(question)}.")
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
        if messages.is_known(copy, order.channel, order.ts):
            messages.refresh(copy.pk)
        else:
            messages.rewrite_stray(copy, order.channel, order.ts)
    except Exception as failure:
        logger.info("the message is left to its deliveries: %s", failure)


def _tell(order: Order, text: str, page: str = "") -> None:
    """For the one who clicked, where they clicked; else as a direct message."""
    link = LinkButtonElement(
        text=plain("Open the desk"), url=page or desk_link("inbox"), action_id="open"
    )
    blocks = [rich(said(shortened(text, 2000))), ActionsBlock(elements=[link])]
    what = {
        "text": escaped(text, 2000),
        "blocks": [block.to_dict() for block in blocks],
        "parse": messages.PARSE,
    }
    for app in signed(order):
        if order.channel and _whispered(app, order, what):
            return
        try:
            call(app, "chat.postMessage", channel=order.user, **what)
            return
        except SlackApiError as refusal:
            logger.warning("%s could not be told: %s", order.user, error_of(refusal))


def _whispered(app: SlackApp, order: Order, what: dict[str, Any]) -> bool:
    try:
        call(app, "chat.postEphemeral", channel=order.channel, user=order.user, **what)
    except SlackApiError as refusal:
        logger.info("no ephemeral message: %s", error_of(refusal))
        return False
    return True
