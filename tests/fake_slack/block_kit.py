"""What Slack accepts as blocks of a message and as a view."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

from tests.fake_slack.composition import plain, text
from tests.fake_slack.elements import ACCESSORY, CONTEXT, IN_ACTIONS, IN_INPUT
from tests.fake_slack.errors import ApiError
from tests.fake_slack.rich_text import RICH_TEXT
from tests.fake_slack.shapes import (
    Check,
    Problems,
    Shape,
    anything,
    array,
    at_least_one,
    boolean,
    by_type,
    exactly_one,
    string,
    url,
)

# Not documented; about 12,000 were refused (slackapi/bolt-js #2509), so we are strict.
MESSAGE_JSON_MAX = 10_000
VIEW_JSON_MAX = 250_000


def _block(needed: dict[str, Check], *rules: Check, **more: Check) -> Shape:
    return Shape({"type": anything, **needed}, {"block_id": string(1, 255), **more}, rules)


INPUT = _block(
    {"label": plain(2000), "element": by_type(IN_INPUT, "input element")},
    hint=plain(2000),
    optional=boolean,
    dispatch_action=boolean,
)
EVERYWHERE: dict[str, Check] = {
    "section": _block(
        {},
        at_least_one("text", "fields"),
        text=text(3000),
        fields=array(text(2000), 1, 10),
        accessory=by_type(ACCESSORY, "accessory"),
        expand=boolean,
    ),
    "header": _block({"text": plain(150)}),
    "context": _block({"elements": array(by_type(CONTEXT, "context element"), 1, 10)}),
    "actions": _block({"elements": array(by_type(IN_ACTIONS, "action element"), 1, 25)}),
    "divider": _block({}),
    "image": _block(
        {"alt_text": string(1, 2000)},
        exactly_one("image_url", "slack_file"),
        image_url=url,
        slack_file=anything,
        title=plain(2000),
    ),
    "rich_text": _block({"elements": array(by_type(RICH_TEXT, "rich text"), 1, 1000)}),
}
ON_SURFACE: dict[str, Mapping[str, Check]] = {
    "message": {**EVERYWHERE, "markdown": _block({"text": string(1, 12_000)})},
    "modal": {**EVERYWHERE, "input": INPUT},
    "home": {**EVERYWHERE, "input": INPUT},
}
_kept: dict[str, Check] = {
    "private_metadata": string(0, 3000),
    "callback_id": string(0, 255),
    "external_id": string(0, 255),
}
VIEWS: dict[str, Check] = {
    "modal": Shape(
        {
            "type": anything,
            "title": plain(24),
            "blocks": array(by_type(ON_SURFACE["modal"], "block"), 1, 100),
        },
        {
            **_kept,
            "submit": plain(24),
            "close": plain(24),
            "clear_on_close": boolean,
            "notify_on_close": boolean,
            "submit_disabled": boolean,
        },
    ),
    "home": Shape(
        {"type": anything, "blocks": array(by_type(ON_SURFACE["home"], "block"), 1, 100)}, _kept
    ),
}


def elements_of(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The elements of a block that a person can act upon."""
    kind = block.get("type")
    if kind == "actions":
        yield from block["elements"]
    elif kind == "input":
        yield block["element"]
    elif kind == "section" and block.get("accessory", {}).get("type") not in (None, "image"):
        yield block["accessory"]


def message_problems(blocks: Any) -> Problems:
    problems = Problems()
    array(by_type(ON_SURFACE["message"], "block"), 0, 50)(blocks, "/blocks", problems)
    if not problems:
        _unique_ids(blocks, "/blocks", problems)
        _as_the_sdk_sees(lambda: [_validated(block) for block in Block.parse_all(blocks)], problems)
    return problems


def view_problems(view: Any) -> Problems:
    problems = Problems()
    by_type(VIEWS, "view")(view, "/view", problems)
    if not problems:
        _unique_ids(view["blocks"], "/view/blocks", problems)
        _submit_and_focus(view, problems)
        _as_the_sdk_sees(lambda: _validated(View(**view)), problems)
        _as_the_sdk_sees(
            lambda: [_validated(block) for block in Block.parse_all(view["blocks"])], problems
        )
    return problems


def refuse_bad_blocks(blocks: Any) -> None:
    if problems := message_problems(blocks):
        raise ApiError("invalid_blocks", messages=problems)
    if len(json.dumps(blocks, ensure_ascii=False)) > MESSAGE_JSON_MAX:
        raise ApiError("msg_blocks_too_long")


def refuse_bad_view(view: Any, kind: str) -> None:
    problems = view_problems(view)
    if not problems and view["type"] != kind:
        problems.add(f"must be of type {kind}", "/view/type")
    if problems:
        raise ApiError("invalid_arguments", messages=problems)
    if len(json.dumps(view)) > VIEW_JSON_MAX:
        raise ApiError("view_too_large")


def _validated(thing: Any) -> None:
    if thing is None:
        raise ValueError("unknown block")
    thing.validate_json()
    thing.to_dict()


def _as_the_sdk_sees(parse: Any, problems: Problems) -> None:
    try:
        parse()
    except Exception as error:
        problems.add(f"{type(error).__name__}: {error}", "")


def _unique_ids(blocks: list[dict[str, Any]], path: str, problems: Problems) -> None:
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        block_id = block.get("block_id")
        if block_id in seen:
            problems.add(f"block_id already exists: {block_id}", f"{path}/{index}/block_id")
        if block_id:
            seen.add(block_id)
        ids = [one["action_id"] for one in elements_of(block) if one.get("action_id")]
        for action_id in {one for one in ids if ids.count(one) > 1}:
            problems.add(f"action_id already exists: {action_id}", f"{path}/{index}/elements")


def _submit_and_focus(view: dict[str, Any], problems: Problems) -> None:
    has_inputs = any(block["type"] == "input" for block in view["blocks"])
    if view["type"] == "modal" and has_inputs and "submit" not in view:
        problems.add("missing required field: submit", "/view")
    elements = [one for block in view["blocks"] for one in elements_of(block)]
    if sum(bool(one.get("focus_on_load")) for one in elements) > 1:
        problems.add("only one element may have focus_on_load", "/view/blocks")
