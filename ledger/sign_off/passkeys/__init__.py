"""Signatures of people: their keys, and assertions over what they decided."""

from __future__ import annotations

from ledger.sign_off.passkeys.assertions import (
    ALGORITHMS,
    ASSERTION,
    MEMBERS,
    SigningKey,
    assertion_faults,
    challenge_of,
    checked,
    counter_of,
    refuse,
)
from ledger.sign_off.passkeys.signing_keys import (
    ENROLLED,
    KEY,
    KINDS,
    WAITS,
    Keys,
    KeysOf,
    enrolment_faults,
    event_faults,
    folded,
    keys_of,
    nonce_of,
    signature_faults,
    statement_of_enrolment,
)

__all__ = [
    "ALGORITHMS",
    "ASSERTION",
    "ENROLLED",
    "KEY",
    "KINDS",
    "MEMBERS",
    "WAITS",
    "Keys",
    "KeysOf",
    "SigningKey",
    "assertion_faults",
    "challenge_of",
    "checked",
    "counter_of",
    "enrolment_faults",
    "event_faults",
    "folded",
    "keys_of",
    "nonce_of",
    "refuse",
    "signature_faults",
    "statement_of_enrolment",
]
