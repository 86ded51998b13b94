"""The REST interface for agents: transactions, tools, and proofs from the log."""

from ninja import Router

from ledger.api import log, pending, permits, policies, tools, transactions
from ledger.api.rendering import record_response, render_token, versioned
from ledger.api.schemas import DecisionRecord, TokenOfIntent
from ledger.api.tools import describe, describe_readonly
from ledger.api.visibility import visible_to

routers: dict[str, Router] = {
    "/transactions": transactions.router,
    "/transactions/{uuid:transaction_id}": permits.of_transaction,
    "/permits": permits.router,
    "/pending": pending.router,
    "/policies": policies.router,
    "/tools": tools.router,
    "/log": log.router,
}

__all__ = [
    "DecisionRecord",
    "TokenOfIntent",
    "describe",
    "describe_readonly",
    "record_response",
    "render_token",
    "routers",
    "versioned",
    "visible_to",
]
