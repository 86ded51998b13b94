"""Brakes: people stop an agent, a tool, a tenant or everything, and let it go on.

What is stopped begins nothing that has an effect, is not signed off and not proposed; what runs may
finish. Whoever asks for a brake has checked that the person may put it.
"""

from __future__ import annotations

from ledger.sign_off.brakes.standing import brake_over, refuse_stopped, refuse_to_begin, sentence_of
from ledger.sign_off.brakes.verbs import LONGEST, WHY_MAX, Put, Scope, check_why, lift, put

__all__ = [
    "LONGEST",
    "WHY_MAX",
    "Put",
    "Scope",
    "brake_over",
    "check_why",
    "lift",
    "put",
    "refuse_stopped",
    "refuse_to_begin",
    "sentence_of",
]
