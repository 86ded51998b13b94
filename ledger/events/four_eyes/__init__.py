"""The four-eyes rule: a change that one operator asks for counts once another has confirmed it.

``kinds`` has what can be changed so; each kind registers itself. ``request`` has the rule.
"""

from __future__ import annotations

from ledger.events.four_eyes.kinds import KINDS, Kind, register, register_check
from ledger.events.four_eyes.request import (
    NO_SUCH_CHANGE,
    ask,
    confirm,
    decline,
    note_alone,
    overtake,
    read,
    refusal,
    statement,
    waiting,
    waiting_for,
)

__all__ = [
    "KINDS",
    "NO_SUCH_CHANGE",
    "Kind",
    "ask",
    "confirm",
    "decline",
    "note_alone",
    "overtake",
    "read",
    "refusal",
    "register",
    "register_check",
    "statement",
    "waiting",
    "waiting_for",
]
