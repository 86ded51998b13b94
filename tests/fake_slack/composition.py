"""The small objects of Block Kit: texts, options, confirm dialogs."""

from __future__ import annotations

from typing import Any

from tests.fake_slack.shapes import (
    Check,
    Problems,
    Shape,
    anything,
    array,
    boolean,
    by_type,
    one_of,
    string,
    url,
)


def plain(most: int) -> Check:
    return by_type({"plain_text": _plain_shape(most)}, "text")


def mrkdwn(most: int) -> Check:
    return by_type({"mrkdwn": _mrkdwn_shape(most)}, "text")


def text(most: int) -> Check:
    return by_type({"plain_text": _plain_shape(most), "mrkdwn": _mrkdwn_shape(most)}, "text")


def _plain_shape(most: int) -> Shape:
    return Shape({"type": anything, "text": string(1, most)}, {"emoji": boolean})


def _mrkdwn_shape(most: int) -> Shape:
    return Shape({"type": anything, "text": string(1, most)}, {"verbatim": boolean})


def option(label: Check, *, has_url: bool = False) -> Shape:
    links = {"url": url} if has_url else {}
    return Shape(
        {"text": label, "value": string(1, 150)},
        {"description": text(75) if label is RICH_LABEL else plain(75), **links},
    )


RICH_LABEL = text(75)
PLAIN_LABEL = plain(75)
SELECT_OPTION = option(PLAIN_LABEL)
RICH_OPTION = option(RICH_LABEL)
OVERFLOW_OPTION = option(PLAIN_LABEL, has_url=True)
OPTION_GROUP = Shape({"label": plain(75), "options": array(SELECT_OPTION, 1, 100)})
STYLE = one_of("primary", "danger")
CONFIRM = Shape(
    {"title": plain(100), "text": text(300), "confirm": plain(30), "deny": plain(30)},
    {"style": STYLE},
)


def all_options(element: dict[str, Any]) -> list[dict[str, Any]]:
    groups = element.get("option_groups") or []
    return [*(element.get("options") or []), *(one for g in groups for one in g["options"])]


def initials_are_options(element: Any, path: str, problems: Problems) -> None:
    try:
        known = all_options(element)
    except (TypeError, KeyError):
        return  # said elsewhere
    chosen = list(element.get("initial_options") or [])
    if "initial_option" in element:
        chosen.append(element["initial_option"])
    for one in chosen:
        if one not in known:
            problems.add("the initial option is not one of the options", path)
    values = [one.get("value") for one in known if isinstance(one, dict)]
    if len(values) != len(set(map(str, values))):
        problems.add("the values of options must be unique", f"{path}/options")
