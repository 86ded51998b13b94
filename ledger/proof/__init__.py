"""Proof of the ledger for outsiders: transparency log, audit, erasure after retention."""
