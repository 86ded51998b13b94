"""The ledger in Django's admin."""

from __future__ import annotations

from ledger.admin import transactions

__all__ = ["transactions"]
