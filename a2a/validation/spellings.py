"""Maps the spellings of envelope members that clients use to Assent's names.

Case, ``_`` and ``-`` make no difference; members nested under ``auth`` or ``meta`` are read as if
they were not nested. A member that occurs in two spellings with different values is refused, so
that no check depends on which one was read.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

NESTS = frozenset({"auth", "meta"})
OURS = {
    "version": "version",
    "traceid": "trace_id",
    "messageid": "message_id",
    "idempotencykey": "idempotency_key",
    "from": "from",
    "fromagent": "from",
    "to": "to",
    "toagent": "to",
    "tenant": "tenant",
    "tenantid": "tenant",
    "capability": "capability",
    "tasktype": "capability",
    "audience": "audience",
    "aud": "audience",
    "scopes": "scopes",
    "sentat": "sent_at",
    "ts": "sent_at",
    "timestamp": "sent_at",
    "timeouts": "timeout_s",
    "timeoutms": "timeout_s",
    "delegationdepth": "delegation_depth",
    "parenttask": "parent_task",
    "parenttaskid": "parent_task",
}
_W3C_TRACE = re.compile(r"[0-9a-f]{32}")


class MemberNotReadable(ValueError):
    """A member that cannot be mapped. Carries its name as sent."""

    def __init__(self, member: str, message: str) -> None:
        super().__init__(message)
        self.member = member


def envelope_as_ours(sent: dict[str, Any]) -> dict[str, Any]:
    """The known members of an envelope under Assent's names. Raises ``NotReadable``."""
    ours: dict[str, Any] = {}
    for member, value in _flat(sent):
        name = OURS.get(_plain(member))
        if name is None or value is None:
            continue
        value = _in_our_units(member, value)
        if ours.setdefault(name, value) != value:
            raise MemberNotReadable(member, f"{name} occurs twice, with different values.")
    return ours


def capability_of(sent: Any) -> str:
    """The skill that an envelope names, in any spelling; empty if it names none."""
    if not isinstance(sent, dict):
        return ""
    return next(
        (str(value) for member, value in _flat(sent) if OURS.get(_plain(member)) == "capability"),
        "",
    )


def w3c_trace_id(text: str) -> str:
    """A UUID in any of its forms is the W3C trace id of the same digits; other text is kept."""
    try:
        digits = UUID(text).hex
    except ValueError:
        return text
    return digits if _W3C_TRACE.fullmatch(digits) else text


def is_w3c_trace_id(text: str) -> bool:
    return _W3C_TRACE.fullmatch(text) is not None


def _flat(sent: dict[str, Any]) -> list[tuple[str, Any]]:
    members: list[tuple[str, Any]] = []
    for member, value in sent.items():
        if _plain(member) in NESTS and isinstance(value, dict):
            members += value.items()
        else:
            members.append((member, value))
    return members


def _plain(member: str) -> str:
    return member.replace("_", "").replace("-", "").lower()


def _in_our_units(member: str, value: Any) -> Any:
    plain = _plain(member)
    if plain == "traceid" and isinstance(value, str):
        return w3c_trace_id(value)
    if plain == "timeoutms":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MemberNotReadable(member, "It is a number of milliseconds.")
        return value / 1000
    return value
