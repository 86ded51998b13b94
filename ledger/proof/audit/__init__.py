"""Proving the ledger: verification, exports and decision records."""

from __future__ import annotations

from ledger.proof.audit.exports import export_lines
from ledger.proof.audit.histories import Family, Part, Standing, register_family, stream
from ledger.proof.audit.rights import Account, register_accounts
from ledger.proof.audit.verification import Broken, Coverage, Proof, Since, verify

__all__ = [
    "Account",
    "Broken",
    "Coverage",
    "Family",
    "Part",
    "Proof",
    "Since",
    "Standing",
    "export_lines",
    "register_accounts",
    "register_family",
    "stream",
    "verify",
]
