"""The REST interface for agents: transactions, tools, and proofs from the log."""

from ninja import Router

from ledger.api import log, pending, permits, policies, tools, transactions
from ledger.api.tools import describe, describe_readonly

routers: dict[str, Router] = {
    "/transactions": transactions.router,
    "/transactions/{uuid:transaction_id}": permits.of_transaction,
    "/permits": permits.router,
    "/pending": pending.router,
    "/policies": policies.router,
    "/tools": tools.router,
    "/log": log.router,
}

__all__ = ["describe", "describe_readonly", "routers"]
