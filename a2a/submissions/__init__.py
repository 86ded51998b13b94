"""From a request to a task: addressing, envelope checks, and the insert."""

from __future__ import annotations

from a2a.submissions.submit import (
    Submission,
    Submitted,
    submit,
    submit_all,
)

__all__ = [
    "Submission",
    "Submitted",
    "submit",
    "submit_all",
]
