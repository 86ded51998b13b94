"""The REST interface for agents: transactions, tools, and proofs from the log."""

from ninja import Router

from ledger.api import log, tools, transactions
from ledger.api.tools import describe, describe_readonly

routers: dict[str, Router] = {
    "/transactions": transactions.router,
    "/tools": tools.router,
    "/log": log.router,
}

__all__ = ["describe", "describe_readonly", "routers"]
