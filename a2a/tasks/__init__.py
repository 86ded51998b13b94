"""The verbs of a task and its questions, and the one writer of a task's ``state``."""

from __future__ import annotations

from a2a.tasks.work import (
    LEASE_LIVES,
    Part,
    add_artifact,
    cancel,
    claim,
    complete,
    decline,
    end,
    fail,
    finish,
    hand_over,
    heartbeat,
    held_by,
    lease_from_now,
    lost_or_missing,
    put_back_or_fail,
    report,
    say,
    time_out,
    visible,
)

__all__ = [
    "LEASE_LIVES",
    "Part",
    "add_artifact",
    "cancel",
    "claim",
    "complete",
    "decline",
    "end",
    "fail",
    "finish",
    "hand_over",
    "heartbeat",
    "held_by",
    "lease_from_now",
    "lost_or_missing",
    "put_back_or_fail",
    "report",
    "say",
    "time_out",
    "visible",
]
