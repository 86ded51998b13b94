"""What people put into the elements of a view, as Slack's clients let them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from tests.fake_slack.block_kit import elements_of
from tests.fake_slack.composition import all_options

Element = dict[str, Any]
State = dict[str, Any]
Values = Mapping[tuple[str, str], Any]

TYPED = {"plain_text_input", "number_input", "email_text_input", "url_text_input"}
ONE_OF = {"static_select", "radio_buttons"}
SOME_OF = {"multi_static_select", "checkboxes"}
PICKED = {
    "datepicker": ("selected_date", "initial_date"),
    "timepicker": ("selected_time", "initial_time"),
    "datetimepicker": ("selected_date_time", "initial_date_time"),
    "users_select": ("selected_user", "initial_user"),
    "multi_users_select": ("selected_users", "initial_users"),
    "conversations_select": ("selected_conversation", "initial_conversation"),
    "channels_select": ("selected_channel", "initial_channel"),
}
STATELESS = {"button", "overflow"}


def state_values(blocks: list[dict[str, Any]], values: Values) -> dict[str, dict[str, State]]:
    """``view.state.values``: what was put in, or the initial values."""
    state: dict[str, dict[str, State]] = {}
    left = dict(values)
    for block in blocks:
        for element in elements_of(block):
            if element["type"] in STATELESS:
                continue
            key = (block["block_id"], element["action_id"])
            entry = entered(element, left.pop(key)) if key in left else initial(element)
            state.setdefault(key[0], {})[key[1]] = entry
    assert not left, f"there is no element {list(left)} in {list(state)}"
    return state


def refuse_incomplete(blocks: list[dict[str, Any]], state: dict[str, dict[str, State]]) -> None:
    """The real client does not send a form with a required input left empty."""
    for block in blocks:
        if block["type"] == "input" and not block.get("optional", False):
            element = block["element"]
            entry = state[block["block_id"]][element["action_id"]]
            held = [value for name, value in entry.items() if name != "type"]
            assert any(value not in (None, "", []) for value in held), (
                f"{block['block_id']} is required: the client does not send the form"
            )


def initial(element: Element) -> State:
    kind = element["type"]
    if kind in TYPED:
        return {"type": kind, "value": element.get("initial_value") or None}
    if kind in ONE_OF:
        return {"type": kind, "selected_option": element.get("initial_option")}
    if kind in SOME_OF:
        return {"type": kind, "selected_options": element.get("initial_options", [])}
    name, initially = PICKED[kind]
    nothing: Any = [] if kind.startswith("multi_") else None
    return {"type": kind, name: element.get(initially, nothing)}


def entered(element: Element, value: Any) -> State:
    kind = element["type"]
    if isinstance(value, dict):
        return value  # as it is: a client that is not Slack's
    if kind in TYPED:
        text = None if value in (None, "") else value
        if text is not None:
            CHECKS[kind](element, text)
        return {"type": kind, "value": text}
    if kind in ONE_OF:
        return {"type": kind, "selected_option": None if value is None else chosen(element, value)}
    if kind in SOME_OF:
        most = element.get("max_selected_items", len(value))
        assert len(value) <= most, f"the client lets nobody choose more than {most}"
        return {"type": kind, "selected_options": [chosen(element, one) for one in value]}
    return {"type": kind, PICKED[kind][0]: value}


def chosen(element: Element, value: str) -> dict[str, Any]:
    for option in all_options(element):
        if option["value"] == value:
            return option
    raise AssertionError(f"{value!r} is not an option of {element['action_id']}")


def _text(element: Element, text: str) -> None:
    assert isinstance(text, str), f"a text input holds a string, not {text!r}"
    least, most = element.get("min_length", 0), element.get("max_length", 3000)
    assert least <= len(text) <= most, f"the client wants {least} to {most} characters"
    has_lines = element.get("multiline", False)
    assert has_lines or "\n" not in text, "this input has one line"


def _number(element: Element, text: str) -> None:
    assert isinstance(text, str), f"a number input holds a string, not {text!r}"
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise AssertionError(f"the client refuses {text!r}: not a number") from None
    assert number.is_finite(), f"the client refuses {text!r}"
    whole = number == number.to_integral_value() and "." not in text
    assert element["is_decimal_allowed"] or whole, f"the client refuses {text!r}: decimal"
    if "min_value" in element:
        assert number >= Decimal(element["min_value"]), f"{text} is too small"
    if "max_value" in element:
        assert number <= Decimal(element["max_value"]), f"{text} is too big"


def _email(element: Element, text: str) -> None:
    assert "@" in text.strip("@"), f"the client refuses {text!r}: not an address"


def _url(element: Element, text: str) -> None:
    assert text.startswith(("http://", "https://")), f"the client refuses {text!r}: not a URL"


CHECKS: dict[str, Callable[[Element, str], None]] = {
    "plain_text_input": _text,
    "number_input": _number,
    "email_text_input": _email,
    "url_text_input": _url,
}
