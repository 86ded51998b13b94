"""Receipt of Slack's payloads, acknowledged in its 3 seconds whatever the database does.

Nothing here waits long for PostgreSQL: a modal is opened from what the button itself carries
(reasons that an agent offers are left out if they do not come in time), and the work goes to a job.
Both transports call this, after they verified that Slack is the sender.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _, gettext_noop
from slack_sdk.models.views import View

from a2a import origins
from a2a.models import Question, QuestionState
from approvals.desk import seems_confirmed
from approvals.presentation.forms import place_misfits
from approvals.slack.api import SlackApp, app_of, client_of
from approvals.slack.interactions import command_queue, replies, stops
from approvals.slack.interactions.commands import Click, ShowForm, ShowHome, Source, Tell
from approvals.slack.interactions.deadlines import MODALS, READS, statement_timeout
from approvals.slack.interactions.reader import in_language_of_reader, language_of
from approvals.slack.rendering import (
    NO_CHOICE,
    ButtonValue,
    InvalidValue,
    ModalValue,
    modals,
    read_button,
    read_modal,
)
from ledger.contracts import json_schemas
from ledger.models import Transaction, new_id

logger = logging.getLogger(__name__)
T = TypeVar("T")

# How long the acknowledgement waits for the row of a click.
STORE_LIMIT = timedelta(milliseconds=500)
# With the time to store what follows and what a dead Redis may cost, below 3 s.
OPEN_LIMIT = timedelta(seconds=1.5)
READ_LIMIT = timedelta(seconds=1)
READ_STATEMENT_LIMIT = timedelta(seconds=1.5)  # nobody waits for the result any more

OLD_BUTTON = gettext_noop(
    "This button is not valid any more. Nothing was decided: open it on the desk."
)
NO_REASON = gettext_noop("Say why: the agent reads it.")
NO_TEXT = gettext_noop("Say it in a few words.")
LONGEST_NAME = 100  # of a tool
WRONG_WORD = gettext_noop("That is not what is written above. Nothing was decided.")


def interaction(payload: dict[str, Any], apps: list[SlackApp]) -> dict[str, Any] | None:
    """A button was pressed or a modal submitted. Returns the body of the acknowledgement."""
    match payload.get("type"):
        case "block_actions":
            for action in payload.get("actions") or []:
                _button_pressed(payload, action, apps)
        case "view_submission":
            return _modal_submitted(payload, apps)
    return None


def command(payload: dict[str, Any], apps: list[SlackApp]) -> dict[str, Any] | None:
    """``/assent``: how much waits for me, and where. ``/assent stop``: the form that stops."""
    source = _source(apps, payload.get("team_id"), payload.get("user_id"))
    verb, _space, name = str(payload.get("text") or "").strip().partition(" ")
    if verb.lower() == "stop":
        named = ButtonValue("stop", name.strip()[:LONGEST_NAME], "", source.team, 0)
        _open_form(ModalValue(named, "", ""), str(payload.get("trigger_id", "")), apps, source)
        return None
    try:
        text = _read_in_time(partial(replies.count_for, source))
    except Exception as failure:
        logger.info("no count for /assent: %s", failure)
        text = _("Assent could not look just now. The desk: {link}")
        text = text.format(link=settings.PUBLIC_URL)
    return {"response_type": "ephemeral", "text": text}


def event(payload: dict[str, Any], apps: list[SlackApp]) -> None:
    """Somebody opened the Home tab."""
    inner = payload.get("event") or {}
    if inner.get("type") == "app_home_opened" and inner.get("tab", "home") == "home":
        source = _source(apps, payload.get("team_id"), inner.get("user"))
        replies.enqueue_in_time(ShowHome(source=source))


def _problem_of_storing(click: Click) -> str:
    """Store the click; what to tell the person if that failed, else nothing."""
    try:
        command_queue.put_in_time(click, STORE_LIMIT)
    except command_queue.NotStored as failure:
        return replies.NO_DATABASE if failure.is_certain else replies.LATER
    return ""


# --- a button --------------------------------------------------------------------------------


def _button_pressed(payload: dict[str, Any], action: dict[str, Any], apps: list[SlackApp]) -> None:
    if action.get("action_id") == "open" or not action.get("value"):
        return  # a link: the browser has opened it
    source = _source_of(payload, apps)
    try:
        button = read_button(action["value"])
    except InvalidValue:
        replies.enqueue_in_time(Tell(source=source, text=OLD_BUTTON))
        return
    value = ModalValue(button, source.channel, source.ts)
    trigger = str(payload.get("trigger_id", ""))
    match button.verb:
        case "reject":
            offered = _offered(button)
            with in_language_of_reader(source):
                view = modals.reject(value, offered)
            _open(view, button, trigger, apps, source)
        case "more":
            with in_language_of_reader(source):
                view = modals.more(value)
            _open(view, button, trigger, apps, source)
        case "approve" if button.word:
            with in_language_of_reader(source):
                view = modals.confirm(value)
            _open(view, button, trigger, apps, source)
        case "answer" | "stop":
            _open_form(value, trigger, apps, source)
        case _:
            click = Click(source=source, button=button, id=_click_id(payload))
            if problem := _problem_of_storing(click):
                replies.show_at_once(Tell(source=source, text=problem))


def _open_form(value: ModalValue, trigger: str, apps: list[SlackApp], source: Source) -> None:
    """A modal at once, and its form when a job has made it."""
    # Named by us, so that the form can follow even if Slack's answer to the call is lost.
    name = hashlib.sha256(trigger.encode()).hexdigest()
    with in_language_of_reader(source):
        view = modals.one_moment(value, name)
    _open(view, value.button, trigger, apps, source)
    replies.enqueue_in_time(ShowForm(source=source, button=value.button, view=name))


def _open(
    view: View, button: ButtonValue, trigger: str, apps: list[SlackApp], source: Source
) -> None:
    """Open a modal. The person is told if that certainly failed; after a timeout it may appear."""
    try:
        MODALS.run(partial(_open_view, view, button.team, trigger, apps), limit=OPEN_LIMIT)
    except TimeoutError:
        logger.warning("Slack is slow to open a modal for %s", button.subject)
    except Exception as failure:
        logger.warning("no modal for %s %s: %s", button.verb, button.subject, failure)
        if button.verb not in {"answer", "stop"}:  # the job that shows the form tells the person
            replies.enqueue_in_time(Tell(source=source, text=replies.NO_MODAL))


def _open_view(view: View, team: str, trigger: str, apps: list[SlackApp]) -> None:
    app = apps[0] if len(apps) == 1 else app_of(team, apps)
    client_of(app, timeout_s=2).views_open(trigger_id=trigger, view=view)


# --- a modal ---------------------------------------------------------------------------------


def _modal_submitted(payload: dict[str, Any], apps: list[SlackApp]) -> dict[str, Any] | None:
    """``None`` closes the modal; errors are shown in it."""
    view = payload.get("view") or {}
    try:
        value = read_modal(view.get("private_metadata"))
    except InvalidValue:
        return _trouble(_source_of(payload, apps), OLD_BUTTON)
    button, typed, source = value.button, "", _source_of(payload, apps, value)
    inputs = (view.get("state") or {}).get("values") or {}
    match button.verb:
        case "reject":
            typed = _typed(inputs, modals.REASON)
            if not typed and modals.offered_index(inputs) is None:
                return _error(source, modals.REASON, NO_REASON)
        case "more":
            typed = _typed(inputs, modals.REASON)
            if not typed and modals.chosen_in(inputs) != modals.HOUR:
                return _error(source, modals.REASON, NO_TEXT)
        case "approve":
            typed = _typed(inputs, modals.TYPED)
            if not seems_confirmed(typed, button.word):
                return _error(source, modals.TYPED, WRONG_WORD)
        case "answer":
            if errors := _answer_errors(source, button, inputs):
                return _errors(errors)
        case "stop":
            if errors := _stop_errors(source, button, inputs):
                return _errors(errors)
        case _:
            return None
    answer = {} if button.verb == "approve" else inputs
    click = Click(source=source, button=button, typed=typed, inputs=answer, id=_click_id(payload))
    problem = _problem_of_storing(click)
    return _trouble(source, problem) if problem else None


def _typed(inputs: dict[str, Any], name: str) -> str:
    return str(inputs.get(name, {}).get(name, {}).get("value") or "").strip()


def _trouble(source: Source, text: str) -> dict[str, Any]:
    with in_language_of_reader(source):
        return {"response_action": "update", "view": modals.trouble(_(text)).to_dict()}


def _error(source: Source, field: str, text: str) -> dict[str, Any]:
    with in_language_of_reader(source):
        return _errors({field: _(text)})


def _errors(errors: dict[str, str]) -> dict[str, Any]:
    return {"response_action": "errors", "errors": errors}


def _offered(button: ButtonValue) -> list[str]:
    """The reasons that the agent offers. If the database is slow, people write their own."""
    if button.choice == NO_CHOICE:
        return []
    try:
        return _read_in_time(partial(_reasons_of, UUID(button.subject)))
    except Exception as failure:
        logger.warning("the reasons of %s could not be read in time: %s", button.subject, failure)
        return []


def _reasons_of(transaction_id: UUID) -> list[str]:
    row = Transaction.objects.get(pk=transaction_id)
    asked_as = origins.asked_as(row)
    return [option.text for option in asked_as.reject_options] if asked_as else []


def _answer_errors(source: Source, button: ButtonValue, inputs: dict[str, Any]) -> dict[str, str]:
    """The errors of an answer, by block. If the database is slow, the job says them later."""
    try:
        return _read_in_time(partial(_check_answer, source, button, inputs))
    except Exception as failure:
        logger.warning("an answer could not be checked in time: %s", failure)
        return {}


def _check_answer(source: Source, button: ButtonValue, inputs: dict[str, Any]) -> dict[str, str]:
    """Empty also for a question that is not open any more: the job says what became of it."""
    question = Question.objects.filter(pk=UUID(button.subject)).first()
    if question is None or question.state != QuestionState.OPEN:
        return {}
    with translation.override(language_of(source)):
        return _misfits(question, inputs)


def _stop_errors(source: Source, button: ButtonValue, inputs: dict[str, Any]) -> dict[str, str]:
    """The same of what is to be stopped."""

    def check() -> dict[str, str]:
        with translation.override(language_of(source)):
            return stops.errors(button, source, inputs)

    try:
        return _read_in_time(check)
    except Exception as failure:
        logger.warning("a stop could not be checked in time: %s", failure)
        return {}


def _misfits(question: Question, inputs: dict[str, Any]) -> dict[str, str]:
    value, form = modals.answer_of(inputs, question.form)
    place_misfits(form, json_schemas.misfits(question.form, value))
    return modals.errors_in(form)


def _read_in_time(work: Callable[[], T]) -> T:
    """Raises ``TimeoutError``, and what ``work`` raises."""

    def read() -> T:
        with statement_timeout(READ_STATEMENT_LIMIT):
            return work()

    return READS.run(read, limit=READ_LIMIT)


# --- parts of a payload ----------------------------------------------------------------------


def _source_of(
    payload: dict[str, Any], apps: list[SlackApp], modal: ModalValue | None = None
) -> Source:
    """A modal names the message whose button opened it; Slack does not."""
    user, container = payload.get("user") or {}, payload.get("container") or {}
    team = (payload.get("team") or {}).get("id") or user.get("team_id")
    return _source(
        apps,
        team,
        user.get("id"),
        home_team=str(user.get("team_id") or team or ""),
        channel=(modal and modal.channel) or str(container.get("channel_id") or ""),
        ts=(modal and modal.ts) or str(container.get("message_ts") or ""),
    )


def _source(apps: list[SlackApp], team: object, user: object, **message: str) -> Source:
    fingerprints = [app.fingerprint for app in apps]
    return Source(fingerprints, str(team or ""), str(user or ""), **message)


def _click_id(payload: dict[str, Any]) -> str:
    """The same request again (Slack's retry, or a replay) is the same click."""
    trigger = payload.get("trigger_id")
    return str(uuid5(NAMESPACE_URL, f"slack:{trigger}") if trigger else new_id())
