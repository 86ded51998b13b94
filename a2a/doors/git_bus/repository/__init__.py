"""Access to a git repository: the program, commits, files, signatures."""

from a2a.doors.git_bus.repository.git import (
    Change,
    Entry,
    GitFailed,
    PushDeclined,
    Remote,
    Repository,
    TooManyNames,
    end_calls,
)
from a2a.doors.git_bus.repository.secret_detection import first_secret

__all__ = [
    "Change",
    "Entry",
    "GitFailed",
    "PushDeclined",
    "Remote",
    "Repository",
    "TooManyNames",
    "end_calls",
    "first_secret",
]
