"""Limits on one agent, tenant, token or address, and what happened when it wanted more.

``terms`` has the limits and their defaults, ``stocks`` limits rows that may be open at once,
``rates`` what comes in a second or a day, ``refusals`` counts.
"""

from __future__ import annotations

from ledger.limits.rates import (
    Door,
    Holder,
    account_has_to_wait,
    attempt_code,
    attempt_sign_in,
    check_address,
    check_holder,
    code_was_right,
    count_bytes,
    count_rejection,
    has_to_wait,
    network_of,
    sign_in_succeeded,
    too_many,
)
from ledger.limits.refusals import prune_refusals
from ledger.limits.terms import (
    MEANINGS,
    MOST,
    SETTABLE,
    Limit,
    Of,
    default,
    parsed,
    refresh,
)

__all__ = [
    "MEANINGS",
    "MOST",
    "SETTABLE",
    "Door",
    "Holder",
    "Limit",
    "Of",
    "account_has_to_wait",
    "attempt_code",
    "attempt_sign_in",
    "check_address",
    "check_holder",
    "code_was_right",
    "count_bytes",
    "count_rejection",
    "default",
    "has_to_wait",
    "network_of",
    "parsed",
    "prune_refusals",
    "refresh",
    "sign_in_succeeded",
    "too_many",
]
