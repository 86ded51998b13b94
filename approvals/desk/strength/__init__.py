"""Approving with more than a click: typing, signing with a passkey, taking one's time."""

from __future__ import annotations

from approvals.desk.strength.confirmations import (
    confirmation_word,
    is_confirmed,
    names_of_target,
    seems_confirmed,
    signs_of,
    word_for_machines,
)
from approvals.desk.strength.pace import must_type, note_pace, undo_offered_until, undo_seconds
from approvals.desk.strength.signing import (
    about,
    answer_to,
    begin,
    options_for,
    signed,
    signed_word,
    why_no_key,
)

__all__ = [
    "about",
    "answer_to",
    "begin",
    "confirmation_word",
    "is_confirmed",
    "must_type",
    "names_of_target",
    "note_pace",
    "options_for",
    "seems_confirmed",
    "signed",
    "signed_word",
    "signs_of",
    "undo_offered_until",
    "undo_seconds",
    "why_no_key",
    "word_for_machines",
]
