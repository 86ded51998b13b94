"""Deadlines that brakes have put off: while one stands, the clocks under it stand still."""

from ledger.transactions.deadlines.moving import is_put_off, left_behind, set_going
from ledger.transactions.deadlines.sealed import (
    as_prepared,
    deadline_faults,
    is_late,
    moved_by,
    put_off_s,
)

__all__ = [
    "as_prepared",
    "deadline_faults",
    "is_late",
    "is_put_off",
    "left_behind",
    "moved_by",
    "put_off_s",
    "set_going",
]
