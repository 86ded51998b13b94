"""The reasons that people and agents give."""

from __future__ import annotations

from ledger import seals
from ledger.errors import InvalidRequest, Sentence

REASON_MAX = 2_000  # characters


def check_reason(reason: str) -> None:
    if len(reason) > REASON_MAX:
        raise InvalidRequest(Sentence("A reason has at most {most} characters.", most=REASON_MAX))
    seals.refuse_unsafe_text(reason, "reason")
