"""Silent addresses of tools: after three time-outs in a row one call at a time finds out.

Everything else for the address waits meanwhile, in every process. The first call that is answered
in time, whatever it says, lets all go on.
"""

from __future__ import annotations

from ledger.tools.silent_addresses.addresses import (
    IN_A_ROW,
    Address,
    address_of,
    forget_old,
    is_silence,
    is_silent,
    next_call_of,
    note,
    read,
    silence_of,
    silences,
)
from ledger.tools.silent_addresses.late import late_calls
from ledger.tools.silent_addresses.turns import turn

__all__ = [
    "IN_A_ROW",
    "Address",
    "address_of",
    "forget_old",
    "is_silence",
    "is_silent",
    "late_calls",
    "next_call_of",
    "note",
    "read",
    "silence_of",
    "silences",
    "turn",
]
