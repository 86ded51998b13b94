"""Brakes: people stop an agent, a tool, a tenant or everything, and let it go on.

What is stopped begins nothing that has an effect, is not signed off and not proposed; what runs may
finish. Whoever asks for a brake has checked that the person may put it.

A *hold* is the brake over a tool whose owner has changed what it publishes. Assent puts it itself,
and it ends where somebody has looked at the change.
"""

from __future__ import annotations

from ledger.events.brakes.standing import brake_over, refuse_stopped, refuse_to_begin, sentence_of
from ledger.events.brakes.verbs import (
    LONGEST,
    WHY_MAX,
    Put,
    Scope,
    check_why,
    end_hold,
    hold,
    lift,
    put,
)

__all__ = [
    "LONGEST",
    "WHY_MAX",
    "Put",
    "Scope",
    "brake_over",
    "check_why",
    "end_hold",
    "hold",
    "lift",
    "put",
    "refuse_stopped",
    "refuse_to_begin",
    "sentence_of",
]
