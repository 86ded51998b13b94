"""Requests, responses, routes and the checks of fields. Knows nothing about sockets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from examples.sandbox.store import Store

MINOR_DIGITS = {"EUR": 2, "USD": 2, "GBP": 2, "JPY": 0}
KEY_MAX = 512  # characters
TEXT_MAX = 500  # characters


class Refused(Exception):
    """The provider refuses a request (a 4xx); nothing was done."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. ``fields`` is the checked body; ``at`` has the variable parts of the path."""

    at: Mapping[str, str]
    query: Mapping[str, str]
    fields: Mapping[str, Any]
    key: str
    base_url: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One response. ``body`` is sent as JSON, or as an HTML page if it is text."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Check = Callable[[Any], Any]
Handler = Callable[["Store", Ask], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """One method and path, its handler, and the fields and parameters that it takes."""

    method: str
    path: str
    pattern: re.Pattern[str]
    handler: Handler
    required: Mapping[str, Check]
    optional: Mapping[str, Check]
    query: frozenset[str]
    needs_key: bool


ROUTES: list[Route] = []


def route(
    method: str,
    path: str,
    *,
    required: Mapping[str, Check] | None = None,
    optional: Mapping[str, Check] | None = None,
    query: tuple[str, ...] = (),
    needs_key: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler for ``path``, where ``{name}`` is one segment. The first match is used."""
    pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))

    def declare(handler: Handler) -> Handler:
        ROUTES.append(
            Route(
                method,
                path,
                pattern,
                handler,
                required or {},
                optional or {},
                frozenset(query),
                needs_key,
            )
        )
        return handler

    return declare


def checked_fields(route: Route, body: Any) -> dict[str, Any]:
    """The checked body. Raises ``Refused``, also for unknown fields, which may be typing errors."""
    if not isinstance(body, dict):
        raise Refused(422, "invalid_request", "The body must be a JSON object.")
    checks = {**route.required, **route.optional}
    if unknown := sorted(set(body) - set(checks)):
        raise Refused(422, "unknown_field", f"Unknown fields: {', '.join(unknown)}.")
    if missing := sorted(set(route.required) - set(body)):
        raise Refused(422, "missing_field", f"Missing fields: {', '.join(missing)}.")
    return {name: _checked(name, checks[name], value) for name, value in body.items()}


def _checked(name: str, check: Check, value: Any) -> Any:
    try:
        return check(value)
    except ValueError as refusal:
        raise Refused(422, "invalid_field", f"{name}: {refusal}") from None


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > TEXT_MAX:
        raise ValueError(f"must be a text of 1 to {TEXT_MAX} characters.")
    return value


def seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise ValueError("must be a number of seconds, more than 0 and at most a day.")
    return float(value)


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1_000_000:
        raise ValueError("must be a whole number from 1.")
    return value


def amount(value: Any) -> Decimal:
    """An amount, which is sent as text such as "48.20" because JSON numbers are doubles."""
    if not isinstance(value, str) or not re.fullmatch(r"\d{1,12}(\.\d{1,3})?", value):
        raise ValueError('must be an amount written as a text, such as "48.20".')
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError("is not an amount.") from None
    if number <= 0:
        raise ValueError("must be more than zero.")
    return number


def one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}.")
        return str(value)

    return check


currency = one_of(*MINOR_DIGITS)


def money(value: Decimal, currency: str) -> dict[str, str]:
    return {"amount": f"{value:.{MINOR_DIGITS[currency]}f}", "currency": currency}


def in_minor_digits(value: Decimal, currency: str) -> bool:
    return round(value, MINOR_DIGITS[currency]) == value


def fingerprint(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def dice(subject: str, sides: int, purpose: str = "") -> int:
    """A number in ``range(sides)`` that looks random and is always the same for one subject."""
    digest = hashlib.sha256(f"{purpose}:{subject}".encode()).digest()
    return int.from_bytes(digest[:8]) % sides
