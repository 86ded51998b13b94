"""What people do in Slack, acknowledged within Slack's 3 seconds whatever the database does.

Nothing here waits for PostgreSQL: a modal is opened from what the button itself carries, and the
work goes to a job. The same for both transports; whoever calls has verified that it is Slack.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError as TooLate
from functools import partial
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

from django.conf import settings
from django.db import connection
from slack_sdk.models.views import View

from approvals.desk import decisions
from approvals.slack.api.credentials import SlackApp, app_of, client_of
from approvals.slack.interactions import click_queue, handle_click, replies
from approvals.slack.interactions.commands import Order
from approvals.slack.rendering import modals, signed_values
from approvals.slack.rendering.signed_values import NotOurs, Press
from ledger.workers import jobs, queues

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Together well below 3 s, with the second that a dead Redis may cost.
OPENING_S, LOOKING_S, WRITING_S = 1.5, 1.0, 0.5
# Apart, so that a database that stands still keeps no modal from being opened.
_looking = ThreadPoolExecutor(max_workers=8, thread_name_prefix="slack-looking")
_writing = ThreadPoolExecutor(max_workers=8, thread_name_prefix="slack-writing")
_calling = ThreadPoolExecutor(max_workers=8, thread_name_prefix="slack-calling")
_hands = ThreadPoolExecutor(max_workers=8, thread_name_prefix="slack")

OLD_BUTTON = "This button is not valid any more. Nothing was decided: open it on the desk."
WRONG_WORD = "That is not what is written above. Nothing was decided."


def handle(payload: dict[str, Any], apps: list[SlackApp]) -> dict[str, Any] | None:
    """What to answer Slack; ``None`` for a bare acknowledgement."""
    match payload.get("type"):
        case "block_actions":
            for action in payload.get("actions") or []:
                _pressed(payload, action, apps)
        case "view_submission":
            return _submitted(payload, apps)
    return None


def command(said: dict[str, Any], apps: list[SlackApp]) -> dict[str, Any]:
    """``/assent``: how much waits for me, and where."""
    order = Order("command", _fingerprints(apps), str(said.get("team_id", "")),
                  str(said.get("user_id", "")))  # fmt: skip
    try:
        text = _in_time(LOOKING_S, partial(_look, partial(replies.count_for, order)), _looking)
    except Exception as failure:
        logger.info("/assent could not look: %s", failure)
        text = f"Assent could not look just now. The desk: {settings.PUBLIC_URL}"
    return {"response_type": "ephemeral", "text": text}


def event(said: dict[str, Any], apps: list[SlackApp]) -> None:
    """Somebody opened the Home tab."""
    inner = said.get("event") or {}
    if inner.get("type") == "app_home_opened" and inner.get("tab", "home") == "home":
        _order("home", apps, str(said.get("team_id", "")), str(inner.get("user", "")))


# --- presses ---------------------------------------------------------------------------------


def _pressed(payload: dict[str, Any], action: dict[str, Any], apps: list[SlackApp]) -> None:
    name = str(action.get("action_id", ""))
    if name == "open" or not action.get("value"):
        return
    order = partial(_order_of, payload, apps)
    try:
        press = signed_values.read(action["value"])
    except NotOurs:
        order("tell", text=OLD_BUTTON)
        return
    trigger, channel, ts = str(payload.get("trigger_id", "")), *_where(payload)
    if press.verb == "reject":
        _open(modals.reject(press, channel, ts), press, trigger, apps, order)
    elif press.verb == "approve" and press.word:
        _open(modals.confirm(press, channel, ts), press, trigger, apps, order)
    elif press.verb == "answer":
        # By a name of our own: the form comes even if we do not hear that Slack opened the view.
        name = hashlib.sha256(trigger.encode()).hexdigest()
        _open(modals.one_moment(press, channel, ts, name), press, trigger, apps, order)
        order("form", press=press, view=name)
    else:
        order("press", press=press)


def _open(
    view: View, press: Press, trigger: str, apps: list[SlackApp], order: Callable[..., None]
) -> None:
    """The person is told when Slack surely did not; if it is only slow they see for themselves."""
    try:
        _in_time(OPENING_S, partial(_open_view, view, press.team, trigger, apps), _calling)
    except TooLate:
        logger.warning("Slack is slow to open a modal for %s", press.subject)
    except Exception as failure:
        logger.warning("no modal for %s %s: %s", press.verb, press.subject, failure)
        if press.verb != "answer":  # of a form that is not there its own job tells
            order("tell", text=replies.NO_MODAL)


def _open_view(view: View, team: str, trigger: str, apps: list[SlackApp]) -> None:
    app = apps[0] if len(apps) == 1 else app_of(team, apps)
    client_of(app, timeout_s=2).views_open(trigger_id=trigger, view=view)


# --- submissions -----------------------------------------------------------------------------


def _submitted(payload: dict[str, Any], apps: list[SlackApp]) -> dict[str, Any] | None:
    view = payload.get("view") or {}
    try:
        press, channel, ts = signed_values.unsealed(view.get("private_metadata"))
    except NotOurs:
        return {"response_action": "update", "view": modals.trouble(OLD_BUTTON).to_dict()}
    state = (view.get("state") or {}).get("values") or {}
    order = partial(_order_of, payload, apps, press=press, channel=channel, ts=ts)
    match press.verb:
        case "reject":
            reason = _typed(state, modals.REASON)
            if not reason:
                return _errors({modals.REASON: "Say why: the agent reads it."})
            order("press", text=reason)
        case "approve":
            typed = _typed(state, modals.TYPED)
            if not decisions.is_typed(typed, press.word):
                return _errors({modals.TYPED: WRONG_WORD})
            order("press", text=typed)
        case "answer":
            if errors := _misfits(press, state):
                return _errors(errors)
            order("press", state=state)
    return None


def _misfits(press: Press, state: dict[str, Any]) -> dict[str, str]:
    """Errors for the modal. If the database is slow the job says them afterwards instead."""
    try:
        return _in_time(
            LOOKING_S, partial(_look, partial(handle_click.misfits, press, state)), _looking
        )
    except Exception as failure:
        logger.warning("an answer could not be checked in time: %s", failure)
        return {}


def _typed(state: dict[str, Any], name: str) -> str:
    return str(state.get(name, {}).get(name, {}).get("value") or "").strip()


def _errors(errors: dict[str, str]) -> dict[str, Any]:
    return {"response_action": "errors", "errors": errors}


# --- orders ----------------------------------------------------------------------------------


def _order_of(
    payload: dict[str, Any], apps: list[SlackApp], kind: str, *, channel: str = "", ts: str = "",
    **more: Any,
) -> None:  # fmt: skip
    user = payload.get("user") or {}
    team = (payload.get("team") or {}).get("id") or user.get("team_id") or ""
    there = _where(payload)
    _order(
        kind, apps, str(team), str(user.get("id", "")), home_team=str(user.get("team_id") or team),
        channel=channel or there[0], ts=ts or there[1], **more, **_identity(payload),
    )  # fmt: skip


def _identity(payload: dict[str, Any]) -> dict[str, str]:
    """The same request again (a retry of Slack's, a replay) is the same click."""
    trigger = payload.get("trigger_id")
    return {"id": str(uuid5(NAMESPACE_URL, f"slack:{trigger}"))} if trigger else {}


def _order(kind: str, apps: list[SlackApp], team: str, user: str, **more: Any) -> None:
    """To the workers; without Redis, to a thread of this process."""
    order = Order(kind, _fingerprints(apps), team, user, **more)
    job = "react" if kind == "press" else "respond"
    if job == "react":
        _write_down(order)
    text = order.as_text()
    if not jobs.enqueue(job, text, label=order.label):
        _hands.submit(_closing_connection, partial(queues.JOBS[job], text))


def _write_down(order: Order) -> None:
    try:
        _in_time(WRITING_S, partial(click_queue.write_down, order), _writing)
    except Exception as failure:
        logger.warning("a click is not written down yet: %s", failure)


def _fingerprints(apps: list[SlackApp]) -> list[str]:
    return [app.fingerprint for app in apps]


def _where(payload: dict[str, Any]) -> tuple[str, str]:
    container = payload.get("container") or {}
    return str(container.get("channel_id") or ""), str(container.get("message_ts") or "")


def _in_time(seconds: float, work: Callable[[], T], hands: ThreadPoolExecutor) -> T:
    """Raises ``TimeoutError`` when it takes longer; what has begun goes on by itself."""
    future: Future[T] = hands.submit(_closing_connection, work)
    try:
        return future.result(seconds)
    except TooLate:
        future.cancel()
        raise


def _look(work: Callable[[], T]) -> T:
    """Nobody waits for it longer than this; so the database need not either."""
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 1500")  # ms; this connection is not used again
    return work()


def _closing_connection(work: Callable[[], T]) -> T:
    """A connection to the database is made by the work that needs one, and not kept."""
    try:
        return work()
    finally:
        connection.close()
