"""The job ``respond``: show people in Slack what came of what they did. It may wait for Slack."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.utils.translation import gettext as _, gettext_noop
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock
from slack_sdk.models.views import View

from a2a.models import QuestionState
from approvals.desk import decisions
from approvals.models import SlackMessage, SlackWorkspace
from approvals.presentation import labels
from approvals.slack import identities
from approvals.slack.api import Patience, SlackApp, Unreachable, call_slack, error_of, workspace_of
from approvals.slack.interactions import command_queue, stops
from approvals.slack.interactions.authorization import (
    Refused,
    apps_that_signed,
    check_message,
    check_person,
    check_workspace,
    refused_by_verb,
)
from approvals.slack.interactions.commands import (
    Reply,
    ShowForm,
    ShowHome,
    Source,
    Tell,
    UpdateMessage,
)
from approvals.slack.interactions.deadlines import REPLIES
from approvals.slack.interactions.reader import in_language_of_reader
from approvals.slack.languages import in_language_of
from approvals.slack.messages import posting
from approvals.slack.rendering import (
    ModalValue,
    as_dicts,
    desk_link,
    escaped,
    home,
    modals,
    open_button,
    regular,
    rich,
    shortened,
)
from ledger.errors import LedgerError
from ledger.events.outbox import NotNow
from ledger.workers import register_job, register_step

logger = logging.getLogger(__name__)

# How long the acknowledgement of a request waits for the row of a reply.
STORE_LIMIT = timedelta(milliseconds=300)
NO_DATABASE = gettext_noop(
    "Assent's database does not answer. Nothing was decided: try again in a minute."
)
LATER = gettext_noop(
    "Assent's database does not answer. Your click may still be carried out: look at the message, "
    "and press again if it has not changed in a minute."
)
NO_MODAL = gettext_noop("Slack did not open the form. Nothing was decided: press the button again.")
NO_FORM = gettext_noop("This form cannot be shown in Slack: answer on the desk.")

MOST_TRIES = 6
RETRY_AFTER, LONGEST_WAIT = timedelta(seconds=6), timedelta(minutes=1)


def enqueue(reply: Reply) -> None:
    """Store a reply for the job; without the database, a thread of this process shows it."""
    try:
        command_queue.put(reply)
    except (OperationalError, InterfaceError) as failure:
        logger.warning("a %s is not stored: %s", reply.kind, failure)
        connection.close()
        show_at_once(reply)


def enqueue_in_time(reply: Reply) -> None:
    """The same before the acknowledgement of a request."""
    try:
        command_queue.put_in_time(reply, STORE_LIMIT)
    except command_queue.NotStored:
        show_at_once(reply)


def show_at_once(reply: Reply) -> None:
    """Try once, in a thread of this process. Never waits for Slack."""
    REPLIES.start(partial(_show_or_say_why, reply))


def respond(reply_id: UUID) -> None:
    """Show one reply. If it is lost, no decision changes."""
    claim = command_queue.claim(Reply, reply_id)
    if claim is None:
        return
    wait = _show_or_say_why(claim.command)
    if wait is None or claim.tries >= MOST_TRIES:
        command_queue.done(claim)
    else:
        command_queue.release(claim, wait)


def _show_or_say_why(reply: Reply) -> timedelta | None:
    """After which time to try again; ``None`` if the person has seen it or never will."""
    try:
        _show(reply)
    except Refused as refusal:
        _show_error(reply, str(refusal), refusal.page)
    except (OperationalError, InterfaceError) as failure:
        connection.close()
        logger.warning("no database for a reply in Slack: %s", failure)
        if isinstance(reply, Tell):
            return RETRY_AFTER
        _show_error(reply, NO_DATABASE)
    except (NotNow, Unreachable) as failure:
        logger.info("a %s in Slack has to wait: %s", reply.kind, failure)
        asked_for = failure.left if isinstance(failure, Patience) else timedelta(0)
        return min(max(RETRY_AFTER, asked_for), LONGEST_WAIT)
    except SlackApiError as refusal:
        logger.warning("Slack refused a %s: %s", reply.kind, error_of(refusal))
    except Exception:
        logger.exception("a %s in Slack could not be shown", reply.kind)
    return None


def register() -> None:
    register_job(Reply.queue, respond, UUID, partial(command_queue.due, Reply))
    register_step(command_queue.delete_old)


def _show(reply: Reply) -> None:
    """In the language of who acted. Raises ``Refused, NotNow, Unreachable, SlackApiError``."""
    if isinstance(reply, UpdateMessage):
        _update_message(reply)
        return
    with in_language_of_reader(reply.source):
        _show_to_person(reply)


def _show_to_person(reply: Reply) -> None:
    match reply:
        case ShowHome():
            _show_home(reply)
        case ShowForm():
            _show_form(reply)
        case Tell():
            _tell(reply)
        case _:
            raise TypeError(f"No reply is shown for {reply.kind}.")


def _show_error(reply: Reply, text: str, page: str = "") -> None:
    """In the tab or the modal that the person looks at, where there is one."""
    with in_language_of_reader(reply.source):
        _show_error_to_person(reply, _(text), page)


def _show_error_to_person(reply: Reply, text: str, page: str) -> None:
    for app in apps_that_signed(reply.source)[:1]:
        match reply:
            case ShowHome(source=source):
                view = home.with_text(text).to_dict()
                _call_quietly(app, "views.publish", user_id=source.user, view=view)
            case ShowForm():
                view = modals.trouble(text, page).to_dict()
                _call_quietly(app, "views.update", external_id=reply.view, view=view)


def _call_quietly(app: SlackApp, method: str, **arguments: object) -> None:
    try:
        call_slack(app, method, **arguments)
    except (NotNow, Unreachable, SlackApiError) as failure:
        logger.info("%s: %s", method, failure)


# --- the Home tab, and /assent ---------------------------------------------------------------


def _show_home(reply: ShowHome) -> None:
    source = reply.source
    app, workspace = check_workspace(source)
    person = identities.person_behind(workspace, source.user, source.home_team)
    view = home.view_for(person, workspace) if person is not None else home.for_a_stranger()
    call_slack(app, "views.publish", user_id=source.user, view=view.to_dict())


def count_for(source: Source) -> str:
    """The text of ``/assent``: how much waits for the person."""
    signed_by = apps_that_signed(source)
    workspace = workspace_of(signed_by[0], source.team) if signed_by else None
    person = workspace and identities.person_behind(workspace, source.user, source.home_team)
    if not workspace or not person:
        text = _("Assent does not know who you are. Link your account once: {link}")
        return text.format(link=desk_link("slack"))
    with in_language_of(person, workspace):
        return f"{home.in_words(home.number_waiting_for(person))} {settings.PUBLIC_URL}"


# --- the form of a question ------------------------------------------------------------------


def _show_form(reply: ShowForm) -> None:
    """Replace "One moment…" by the form, or by the reason why there is none."""
    button, is_stop = reply.button, reply.button.verb == "stop"
    app, workspace = check_workspace(reply.source, button if button.message else None)
    try:
        view = stops.form(button, reply.source) if is_stop else _form(workspace, reply)
    except Refused as refusal:
        view = modals.trouble(str(refusal), refusal.page)
    except LedgerError as error:
        view = modals.trouble(str(refused_by_verb(error)))
    try:
        call_slack(app, "views.update", external_id=reply.view, view=view.to_dict())
    except SlackApiError as refusal:
        if error_of(refusal) == "not_found":
            enqueue(Tell(source=reply.source, text=NO_MODAL))
            return
        logger.warning("Slack refused a form: %s", error_of(refusal))
        sorry = modals.trouble(_(NO_FORM)).to_dict()
        call_slack(app, "views.update", external_id=reply.view, view=sorry)


def _form(workspace: SlackWorkspace, reply: ShowForm) -> View:
    """Raises ``Refused``, and ``LedgerError`` when the person may not answer."""
    source = reply.source
    message = check_message(workspace, reply.button, source)
    person = check_person(workspace, source)
    question = message.question
    if question is None:
        raise Refused(_("There is no such question."))
    if question.state != QuestionState.OPEN:
        raise Refused(f"{labels.question_outcome(question)}.")
    decisions.check_may_answer(person, question)
    return modals.form(question, ModalValue(reply.button, source.channel, source.ts))


# --- the message that was clicked ------------------------------------------------------------


def _update_message(reply: UpdateMessage) -> None:
    """Whatever came of a click, the message that was clicked shows the present state."""
    source = reply.source
    related = ("workspace", "transaction", "question__task")
    message = SlackMessage.objects.select_related(*related).filter(pk=reply.message).first()
    if message is None or not source.ts or message.channel not in {"", source.channel}:
        return
    try:
        if posting.recognize(message, source.channel, source.ts):
            posting.refresh(message.pk)
        else:
            posting.update_duplicate(message, source.channel, source.ts)
    except Exception as failure:
        logger.info("the outbox will update the message: %s", failure)


# --- a text for one person -------------------------------------------------------------------


def _tell(reply: Tell) -> None:
    """As an ephemeral message where the person clicked, else as a direct message.

    A fixed text is queued in English, and translated here; others are in the right language.
    """
    source, words = reply.source, _(reply.text) if reply.text else ""
    link = open_button(reply.page or desk_link("inbox"), _("Open the desk"))
    text = rich(regular(shortened(words, 2000)))
    content: dict[str, Any] = {
        "text": escaped(words, 2000),
        "blocks": as_dicts([text, ActionsBlock(elements=[link])]),
        "parse": posting.PARSE,
    }
    for app in apps_that_signed(source):
        if source.channel and _posted_ephemeral(app, source, content):
            return
        try:
            call_slack(app, "chat.postMessage", channel=source.user, **content)
            return
        except SlackApiError as refusal:
            logger.warning("%s could not be told: %s", source.user, error_of(refusal))


def _posted_ephemeral(app: SlackApp, source: Source, content: dict[str, Any]) -> bool:
    try:
        call_slack(app, "chat.postEphemeral", channel=source.channel, user=source.user, **content)
    except SlackApiError as refusal:
        logger.info("no ephemeral message: %s", error_of(refusal))
        return False
    return True
