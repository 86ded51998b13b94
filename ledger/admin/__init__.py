"""The ledger in Django's admin."""

from __future__ import annotations

from ledger.admin import agents, owners, transactions

__all__ = ["agents", "owners", "transactions"]
