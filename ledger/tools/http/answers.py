"""Meaning of the answer of a tool over HTTP: the table of docs/http-tools.md, row by row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.contracts.results import clean
from ledger.foundation import characters

NOTHING_HAPPENED = "nothing-happened"
CONFLICT = "conflict"
NOT_YET = frozenset({401, 403, 429, 503})


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, the JSON object of the body (empty if there is none), and ``Retry-After``.

    ``hint`` is what the headers tell people besides.
    """

    status: int
    body: Mapping[str, Any]
    retry_after_s: float = 1.0
    hint: str = ""

    @property
    def problem(self) -> str:
        """The last part of an RFC 9457 ``type``: ``nothing-happened``."""
        return str(self.body.get("type") or "").rstrip("/").rpartition("/")[2].rpartition(":")[2]

    @property
    def detail(self) -> str:
        text = self.body.get("detail") or self.body.get("title") or f"It answered {self.status}."
        return characters.cleaned(clean(f"{text} {self.hint}".strip(), most=1000))


class NotProved(Exception):
    """The answer proves nothing: the call may have had its effect."""


@dataclass(frozen=True, slots=True)
class Done:
    """It was carried out. ``body`` is the answer's."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskLater:
    """It was accepted and is not done yet: ask for the operation after so long."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """It certainly had no effect. ``may_be_called_again`` if the refusal is not for good."""

    why: str
    may_be_called_again: bool = False


Meaning = Done | AskLater | Refused


def meaning_of(answer: Answer) -> Meaning:
    """Proof in an answer to plan, commit, rollback and compensate. Raises ``NotProved``."""
    match answer.status:
        case 200:
            return Done(answer.body)
        case 202:
            return AskLater(answer.retry_after_s)
        case 409 if answer.problem == CONFLICT:
            return Refused(answer.detail)
        case 422 if answer.problem == NOTHING_HAPPENED:
            return Refused(answer.detail)
        case status if status in NOT_YET and answer.problem == NOTHING_HAPPENED:
            return Refused(answer.detail, may_be_called_again=True)
        case status:
            raise NotProved(f"It answered {status}, which proves nothing.")


def meaning_of_operation(answer: Answer, *, is_complete: bool) -> Meaning | None:
    """Proof in an answer about one operation; ``None``: it cannot be told yet."""
    if answer.status == 404:
        why = "The tool has no such operation, and its records are complete."
        return Refused(why) if is_complete else None
    if answer.status in {200, 202, 422}:
        return meaning_of(answer)
    return None


def check_is_of(operation_key: str, body: Mapping[str, Any]) -> None:
    """Raises ``NotProved`` for an answer that names another operation than the one asked for."""
    if body.get("operation_key", operation_key) != operation_key:
        raise NotProved("It answered for another operation than the one that it was asked for.")


def object_in(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body; empty if it is none. Raises ``NotProved`` for a broken one."""
    if not body.strip():
        return {}
    try:
        value = json.loads(body, object_pairs_hook=_members)
    except (ValueError, RecursionError):
        raise NotProved("Its answer is not JSON.") from None
    if not isinstance(value, dict):
        raise NotProved("Its answer is not a JSON object.")
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two members of one name readers take either: such an answer says two things."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise NotProved("Its answer has two members of one name.")
    return members
