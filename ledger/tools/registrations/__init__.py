"""Registered tools: their versions, changes to them, and what about a change needs four eyes.

``versions`` keeps each version, ``manifest_changes`` says what makes a tool less strict, and
``changes`` has such a change wait for a second operator.
"""

from __future__ import annotations

from ledger.tools.registrations.changes import KIND, change
from ledger.tools.registrations.manifest_changes import loosened, loosened_terms
from ledger.tools.registrations.versions import (
    Refused,
    Unsafe,
    check,
    current,
    differences,
    latest,
    record,
    register,
    withdraw,
)

__all__ = [
    "KIND",
    "Refused",
    "Unsafe",
    "change",
    "check",
    "current",
    "differences",
    "latest",
    "loosened",
    "loosened_terms",
    "record",
    "register",
    "withdraw",
]
