"""The interactive elements of Block Kit, and where each may stand."""

from __future__ import annotations

from typing import Any

from tests.fake_slack.composition import (
    CONFIRM,
    OPTION_GROUP,
    OVERFLOW_OPTION,
    RICH_OPTION,
    SELECT_OPTION,
    STYLE,
    initials_are_options,
    mrkdwn,
    plain,
)
from tests.fake_slack.shapes import (
    Check,
    Problems,
    Shape,
    anything,
    array,
    boolean,
    exactly_one,
    integer,
    one_of,
    string,
    url,
)

KIND: dict[str, Check] = {"type": anything}
ACTION: dict[str, Check] = {"action_id": string(1, 255)}
ASKING: dict[str, Check] = {**ACTION, "confirm": CONFIRM, "focus_on_load": boolean}
PLACED: dict[str, Check] = {**ASKING, "placeholder": plain(150)}
TYPED: dict[str, Check] = {
    **ACTION,
    "focus_on_load": boolean,
    "placeholder": plain(150),
    "dispatch_action_config": Shape(
        {},
        {"trigger_actions_on": array(one_of("on_enter_pressed", "on_character_entered"), 1, 2)},
    ),
}
OPTIONS: dict[str, Check] = {
    "options": array(SELECT_OPTION, 1, 100),
    "option_groups": array(OPTION_GROUP, 1, 100),
}
MANY: dict[str, Check] = {"max_selected_items": integer(1, 100)}


def initial_fits(value: Any, path: str, problems: Problems) -> None:
    initial, most = value.get("initial_value"), value.get("max_length", 3000)
    if isinstance(initial, str) and isinstance(most, int) and len(initial) > most:
        problems.add(f"initial_value must be less than {most + 1} characters", path)
    least = value.get("min_length", 0)
    if isinstance(least, int) and isinstance(most, int) and least > most:
        problems.add("min_length must not be more than max_length", path)


def _picker(**initial: Check) -> Shape:
    return Shape(KIND, {**PLACED, **initial})


def _select(**initial: Check) -> Shape:
    return Shape(
        KIND,
        {**PLACED, **OPTIONS, **initial},
        (exactly_one("options", "option_groups"), initials_are_options),
    )


def _boxes(**initial: Check) -> Shape:
    needed = {**KIND, "options": array(RICH_OPTION, 1, 10)}
    return Shape(needed, {**ASKING, **initial}, (initials_are_options,))


ID = string(1, 255)
ELEMENTS: dict[str, Check] = {
    "button": Shape(
        {**KIND, "text": plain(75)},
        {
            **ACTION,
            "value": string(1, 2000),
            "url": url,
            "style": STYLE,
            "confirm": CONFIRM,
            "accessibility_label": string(1, 75),
        },
    ),
    "static_select": _select(initial_option=SELECT_OPTION),
    "multi_static_select": _select(initial_options=array(SELECT_OPTION), **MANY),
    "radio_buttons": _boxes(initial_option=RICH_OPTION),
    "checkboxes": _boxes(initial_options=array(RICH_OPTION, 1, 10)),
    "overflow": Shape(
        {**KIND, "options": array(OVERFLOW_OPTION, 1, 5)}, {**ACTION, "confirm": CONFIRM}
    ),
    "users_select": _picker(initial_user=ID),
    "multi_users_select": _picker(initial_users=array(ID), **MANY),
    "conversations_select": _picker(initial_conversation=ID),
    "channels_select": _picker(initial_channel=ID),
    "datepicker": _picker(initial_date=string(10, 10)),
    "timepicker": _picker(initial_time=string(5, 5), timezone=string(1, 100)),
    "datetimepicker": Shape(KIND, {**ASKING, "initial_date_time": integer(0, 9_999_999_999)}),
    "plain_text_input": Shape(
        KIND,
        {
            **TYPED,
            "multiline": boolean,
            "initial_value": string(0, 3000),
            "min_length": integer(0, 3000),
            "max_length": integer(1, 3000),
        },
        (initial_fits,),
    ),
    "email_text_input": Shape(KIND, {**TYPED, "initial_value": string(1, 3000)}),
    "url_text_input": Shape(KIND, {**TYPED, "initial_value": string(1, 3000)}),
    "number_input": Shape(
        {**KIND, "is_decimal_allowed": boolean},
        {
            **TYPED,
            "initial_value": string(1, 100),
            "min_value": string(1, 100),
            "max_value": string(1, 100),
        },
    ),
}
IMAGE = Shape(
    {**KIND, "alt_text": string(1, 2000)},
    {"image_url": url, "slack_file": anything},
    (exactly_one("image_url", "slack_file"),),
)
CONTEXT: dict[str, Check] = {"image": IMAGE, "plain_text": plain(3000), "mrkdwn": mrkdwn(3000)}

_typed = {"plain_text_input", "email_text_input", "url_text_input", "number_input"}
_inputs_only = {*_typed, "datetimepicker"}
ACCESSORY = {"image": IMAGE, **{k: v for k, v in ELEMENTS.items() if k not in _inputs_only}}
IN_ACTIONS = {
    kind: shape
    for kind, shape in ELEMENTS.items()
    if kind not in _typed and not kind.startswith("multi_")
}
IN_INPUT = {k: v for k, v in ELEMENTS.items() if k not in {"button", "overflow"}}
