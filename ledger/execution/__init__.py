"""Claim, call and record: how workers carry out a signed-off transaction exactly once."""

from __future__ import annotations

from ledger.execution.commit import (
    claim,
    commit,
    compensate,
    doubt_lapsed_lease,
    roll_back,
    run,
)

__all__ = [
    "claim",
    "commit",
    "compensate",
    "doubt_lapsed_lease",
    "roll_back",
    "run",
]
