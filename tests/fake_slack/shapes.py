"""Checks of JSON against a shape: what a key may hold, which keys there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

Check = Callable[[Any, str, "Problems"], None]


class Problems(list[str]):
    """The messages that Slack puts into ``response_metadata``."""

    def add(self, message: str, path: str) -> None:
        self.append(f"[ERROR] {message} [json-pointer:{path or '/'}]")


@dataclass(frozen=True)
class Shape:
    required: Mapping[str, Check] = field(default_factory=dict)
    optional: Mapping[str, Check] = field(default_factory=dict)
    whole: tuple[Check, ...] = ()  # rules over several keys

    def __call__(self, value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, dict):
            problems.add("must be an object", path)
            return
        for name in self.required.keys() - value.keys():
            problems.add(f"missing required field: {name}", path)
        known = {**self.required, **self.optional}
        for name, held in value.items():
            if name not in known:
                problems.add(f"no more than the known fields allowed: {name}", f"{path}/{name}")
            else:
                known[name](held, f"{path}/{name}", problems)
        for rule in self.whole:
            rule(value, path, problems)


def string(least: int = 1, most: int = 3000) -> Check:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, str):
            problems.add("must be a string", path)
        elif len(value) < least:
            problems.add(f"must be more than {least - 1} characters", path)
        elif len(value) > most:
            problems.add(f"must be less than {most + 1} characters", path)

    return check


def boolean(value: Any, path: str, problems: Problems) -> None:
    if not isinstance(value, bool):
        problems.add("must be a boolean", path)


def integer(least: int, most: int) -> Check:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            problems.add("must be an integer", path)
        elif not least <= value <= most:
            problems.add(f"must be between {least} and {most}", path)

    return check


def one_of(*allowed: Any) -> Check:
    def check(value: Any, path: str, problems: Problems) -> None:
        if value not in allowed:
            problems.add(f"must be one of {', '.join(map(str, allowed))}", path)

    return check


def array(item: Check, least: int = 1, most: int = 100) -> Check:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, list):
            problems.add("must be an array", path)
            return
        if len(value) < least:
            problems.add(f"no fewer than {least} items allowed", path)
        if len(value) > most:
            problems.add(f"no more than {most} items allowed", path)
        for index, one in enumerate(value):
            item(one, f"{path}/{index}", problems)

    return check


def by_type(shapes: Mapping[str, Check], what: str) -> Check:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, dict):
            problems.add("must be an object", path)
            return
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in shapes:
            problems.add(f"unsupported type of {what}: {kind}", f"{path}/type")
        else:
            shapes[kind](value, path, problems)

    return check


def url(value: Any, path: str, problems: Problems) -> None:
    string(1, 3000)(value, path, problems)
    if isinstance(value, str):
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            problems.add("must be a valid url", path)


def exactly_one(*names: str) -> Check:
    def check(value: Any, path: str, problems: Problems) -> None:
        if sum(name in value for name in names) != 1:
            problems.add(f"must have exactly one of {', '.join(names)}", path)

    return check


def at_least_one(*names: str) -> Check:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not any(name in value for name in names):
            problems.add(f"must have at least one of {', '.join(names)}", path)

    return check


def anything(value: Any, path: str, problems: Problems) -> None:
    """Said by another check."""
