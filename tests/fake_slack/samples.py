"""Blocks and views, good and bad, for the tests of the fake itself."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from tests.fake_slack.records import Modal, SlackUser
from tests.fake_slack.slack import FakeSlack


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, **more}}


def button(action_id: str = "approve", text: str = "Approve", **more: Any) -> dict[str, Any]:
    return {"type": "button", "text": plain(text), "action_id": action_id, **more}


def actions(*elements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "actions", "elements": list(elements), **more}


def asked(block_id: str, element: dict[str, Any], **more: Any) -> dict[str, Any]:
    element = {"action_id": "value", **element}
    return {"type": "input", "block_id": block_id, "label": plain("?"), "element": element, **more}


def modal(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    shown = list(blocks) or [asked("reason", {"type": "plain_text_input"})]
    return {
        "type": "modal",
        "title": plain("Why?"),
        "submit": plain("Send"),
        "blocks": shown,
        **more,
    }


def options(*values: str) -> list[dict[str, Any]]:
    return [{"text": plain(one.title()), "value": one} for one in values]


def code(refusal: pytest.ExceptionInfo[SlackApiError]) -> str:
    return str(refusal.value.response["error"])


def refused(call: Any, **args: Any) -> str:
    with pytest.raises(SlackApiError) as refusal:
        call(**args)
    return code(refusal)


def opened(slack: FakeSlack, client: WebClient, user: SlackUser, view: dict[str, Any]) -> Modal:
    client.views_open(trigger_id=slack.issue_trigger(user.team, user.id), view=view)
    return slack.modals[-1]


SELECT = {"type": "static_select", "action_id": "pick"}
CONFIRM = {"title": plain("Sure?"), "text": plain("x"), "confirm": plain("Y"), "deny": plain("N")}
GOOD_BLOCKS = [
    [mrkdwn("x" * 3000), {"type": "divider"}, {"type": "header", "text": plain("x" * 150)}],
    [actions(button(value="x" * 2000, style="danger", confirm=CONFIRM))],
    [actions({**SELECT, "options": options(*(f"v{n}" for n in range(100)))})],
    [{"type": "context", "elements": [{"type": "mrkdwn", "text": "x", "verbatim": True}]}],
    [{**mrkdwn("x"), "accessory": {"type": "overflow", "options": options("a", "b")}}],
    [actions({"type": "radio_buttons", "options": options("a")}, {"type": "datepicker"})],
]
BAD_BLOCKS = {
    "51 blocks": [mrkdwn("x")] * 51,
    "unknown block": [{"type": "shout", "text": plain("x")}],
    "input in a message": [asked("a", {"type": "plain_text_input"})],
    "unknown key": [{**mrkdwn("x"), "colour": "red"}],
    "long section": [mrkdwn("x" * 3001)],
    "empty section": [mrkdwn("")],
    "nothing in a section": [{"type": "section"}],
    "11 fields": [{"type": "section", "fields": [plain("x")] * 11}],
    "long field": [{"type": "section", "fields": [plain("x" * 2001)]}],
    "long header": [{"type": "header", "text": plain("x" * 151)}],
    "mrkdwn header": [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}],
    "emoji in mrkdwn": [mrkdwn("x", emoji=True)],
    "verbatim in plain text": [{"type": "header", "text": {**plain("x"), "verbatim": True}}],
    "no context": [{"type": "context", "elements": []}],
    "11 in a context": [{"type": "context", "elements": [plain("x")] * 11}],
    "26 buttons": [actions(*(button(f"b{n}") for n in range(26)))],
    "long button": [actions(button(text="x" * 76))],
    "long value": [actions(button(value="x" * 2001))],
    "long url": [actions(button(url="https://x.example/" + "x" * 3000))],
    "script": [actions(button(url="javascript:alert(1)"))],
    "long action_id": [actions(button("x" * 256))],
    "same action_id": [actions(button(), button())],
    "unknown style": [actions(button(style="default"))],
    "long confirm": [actions(button(confirm={**CONFIRM, "title": plain("x" * 101)}))],
    "long confirm text": [actions(button(confirm={**CONFIRM, "text": plain("x" * 301)}))],
    "long deny": [actions(button(confirm={**CONFIRM, "deny": plain("x" * 31)}))],
    "101 options": [actions({**SELECT, "options": options(*(f"v{n}" for n in range(101)))})],
    "no options": [actions({**SELECT, "options": []})],
    "long option": [actions({**SELECT, "options": options("x" * 76)})],
    "empty option value": [actions({**SELECT, "options": [{"text": plain("x"), "value": ""}]})],
    "long placeholder": [
        actions({**SELECT, "options": options("a"), "placeholder": plain("x" * 151)})
    ],
    "11 radio buttons": [
        actions({"type": "radio_buttons", "options": options(*(f"v{n}" for n in range(11)))})
    ],
    "6 in an overflow": [actions({"type": "overflow", "options": options(*"abcdef")})],
    "text input in actions": [actions({"type": "plain_text_input"})],
    "same block_id": [mrkdwn("x") | {"block_id": "a"}, mrkdwn("y") | {"block_id": "a"}],
    "long block_id": [mrkdwn("x") | {"block_id": "x" * 256}],
}
BAD_VIEWS = {
    "no title": {"type": "modal", "blocks": [mrkdwn("x")]},
    "long title": modal(title=plain("x" * 25)),
    "long submit": modal(submit=plain("x" * 25)),
    "inputs without submit": {k: v for k, v in modal().items() if k != "submit"},
    "101 blocks": modal(*([mrkdwn("x")] * 101)),
    "long private_metadata": modal(private_metadata="x" * 3001),
    "long callback_id": modal(callback_id="x" * 256),
    "unknown key": modal(hash="x"),
    "long label": modal({**asked("a", {"type": "plain_text_input"}), "label": plain("x" * 2001)}),
    "long max_length": modal(asked("a", {"type": "plain_text_input", "max_length": 3001})),
    "long initial_value": modal(
        asked("a", {"type": "plain_text_input", "max_length": 3, "initial_value": "four"})
    ),
    "number input of no kind": modal(asked("a", {"type": "number_input"})),
    "button as input": modal(asked("a", button())),
    "stranger as initial option": modal(
        asked("a", {**SELECT, "options": options("a"), "initial_option": options("b")[0]})
    ),
    "submit on a home": {"type": "home", "submit": plain("x"), "blocks": [mrkdwn("x")]},
}
