"""Proving the ledger: verification, exports and decision records."""
