"""The reasons that people and agents give."""

from __future__ import annotations

from ledger import intents
from ledger.errors import InvalidRequest

REASON_MAX = 2_000  # characters


def check_reason(reason: str) -> None:
    if len(reason) > REASON_MAX:
        raise InvalidRequest(f"A reason has at most {REASON_MAX} characters.")
    intents.refuse_unsafe_text(reason, "reason")
