"""What Slack does with the body of an acknowledgement."""

from __future__ import annotations

import copy
from typing import Any

from tests.fake_slack.block_kit import message_problems, view_problems
from tests.fake_slack.records import Channel, Ephemeral, Message, Modal, Reaction, SlackUser
from tests.fake_slack.state import State
from tests.fake_slack.views import replace, show

DEEPEST = 3  # views in one stack


def take_view_answer(state: State, modal: Modal, reaction: Reaction) -> None:
    with state.changing():
        if reaction.is_late or reaction.status != 200:
            modal.shows_trouble = True
            return
        modal.shows_trouble = False
        modal.errors = {}
        if not reaction.body:
            modal.is_closed = True
            return
        answer = reaction.json
        assert answer is not None, f"Slack understands no such answer: {reaction.body!r}"
        action = answer.get("response_action")
        expected = {"errors": {"errors"}, "update": {"view"}, "push": {"view"}, "clear": set()}
        known = action in expected and set(answer) == {"response_action", *expected[action]}
        assert known, f"Slack understands no such answer: {reaction.body!r}"
        if action == "errors":
            _show_errors(modal, answer["errors"])
        elif action == "clear":
            _close_all(state, modal)
        else:
            _show_view(state, modal, action, answer["view"])


def _show_errors(modal: Modal, errors: Any) -> None:
    assert isinstance(errors, dict), f"errors must be an object, not {errors!r}"
    assert errors, "errors must not be empty"
    inputs = {one["block_id"] for one in modal.view["blocks"] if one["type"] == "input"}
    for block_id, message in errors.items():
        assert block_id in inputs, f"{block_id} is not an input block of {sorted(inputs)}"
        assert isinstance(message, str), f"no text for {block_id}: {message!r}"
        assert message, f"no text for {block_id}"
    modal.errors = errors


def _show_view(state: State, modal: Modal, action: str, view: Any) -> None:
    problems = view_problems(view)
    assert not problems, f"Slack refuses the view: {problems}"
    assert view["type"] == "modal", "a modal can only become a modal"
    if action == "update":
        replace(state, modal, copy.deepcopy(view))
        return
    open_here = [one for one in state.modals if one.root is modal.root and not one.is_closed]
    assert len(open_here) < DEEPEST, f"no more than {DEEPEST} views in a stack"
    show(state, modal.team, modal.user, copy.deepcopy(view), modal)


def _close_all(state: State, modal: Modal) -> None:
    for one in state.modals:
        if one.root is modal.root:
            one.is_closed = True


def take_command_answer(
    state: State, channel: Channel, user: SlackUser, reaction: Reaction
) -> None:
    """A body is shown in the channel: to the person alone, unless it says ``in_channel``."""
    if reaction.is_late or reaction.status != 200 or not reaction.body:
        return
    answer = reaction.json if reaction.json is not None else {"text": reaction.body}
    text, blocks = answer.get("text", ""), copy.deepcopy(answer.get("blocks", []))
    problems = message_problems(blocks)
    assert not problems, f"Slack refuses the answer: {problems}"
    assert text or blocks, f"Slack shows nothing for {reaction.body!r}"
    kind = answer.get("response_type", "ephemeral")
    assert kind in ("ephemeral", "in_channel"), f"no such response_type: {kind}"
    with state.changing():
        ts = state.next_ts()
        blocks = state.with_ids(blocks)
        if kind == "ephemeral":
            shown = Ephemeral(channel.team, channel.id, user.id, ts, text, blocks)
            state.ephemerals.append(shown)
        else:
            state.messages.append(Message(channel.team, channel.id, ts, text, blocks))
