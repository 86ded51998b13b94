"""Deadlines that are moved: by brakes, by people who give more time, and by questions."""

from ledger.transactions.deadlines.moving import is_put_off, left_behind, set_going
from ledger.transactions.deadlines.sealed import (
    LONGEST_REST,
    as_prepared,
    deadline_faults,
    has_open_question,
    is_late,
    left_of_rest,
    moved_by,
    open_question,
    put_off_s,
)

__all__ = [
    "LONGEST_REST",
    "as_prepared",
    "deadline_faults",
    "has_open_question",
    "is_late",
    "is_put_off",
    "left_behind",
    "left_of_rest",
    "moved_by",
    "open_question",
    "put_off_s",
    "set_going",
]
