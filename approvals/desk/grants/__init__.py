"""Signatures in advance at the desk: given, counted, suggested and ended by people."""

from __future__ import annotations

from approvals.desk.grants.grants import (
    SIGNERS,
    Bar,
    Signed,
    allow,
    bars_of,
    broken_glass,
    can_be_allowed,
    check_signer,
    may_allow,
    not_filled_by,
    sign,
    signed_by,
    uses_of,
    without_room,
)
from approvals.desk.grants.suggestions import Suggestion, suggestions_for

__all__ = [
    "SIGNERS",
    "Bar",
    "Signed",
    "Suggestion",
    "allow",
    "bars_of",
    "broken_glass",
    "can_be_allowed",
    "check_signer",
    "may_allow",
    "not_filled_by",
    "sign",
    "signed_by",
    "suggestions_for",
    "uses_of",
    "without_room",
]
