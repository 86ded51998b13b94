"""The REST interface for agents: transactions, tools, and proofs from the log."""

from ninja import Router

from ledger.api import brakes, log, pending, permits, policies, terms, tools, transactions
from ledger.api.rendering import record_response, render_token, versioned
from ledger.api.schemas import ChangeOut, DecisionRecord, SaidOut, TokenOfIntent
from ledger.api.terms import terms_of
from ledger.api.tools import describe, describe_readonly
from ledger.api.visibility import visible_to

routers: dict[str, Router] = {
    "/transactions": transactions.router,
    "/transactions/{uuid:transaction_id}": permits.of_transaction,
    "/permits": permits.router,
    "/pending": pending.router,
    "/policies": policies.router,
    "/tools": tools.router,
    "/terms": terms.router,
    "/access/v1/evaluation": terms.evaluation,
    "/brakes": brakes.router,
    "/log": log.router,
}

__all__ = [
    "ChangeOut",
    "DecisionRecord",
    "SaidOut",
    "TokenOfIntent",
    "describe",
    "describe_readonly",
    "record_response",
    "render_token",
    "routers",
    "terms_of",
    "versioned",
    "visible_to",
]
