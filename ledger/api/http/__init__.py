"""Parts that every HTTP interface for agents shares; the endpoints themselves are elsewhere.

Authentication by token, JSON in and out, refusals as problem+json, and a limit to polling.
"""

from __future__ import annotations

from ledger.api.http.authentication import (
    HAS_WAITED,
    TOKEN_IS_KNOWN,
    AgentBearer,
    caller_of,
    token_in,
)
from ledger.api.http.problems import (
    CERTAIN,
    PROBLEM_TYPE,
    UNCERTAIN,
    database_away,
    not_authenticated,
    problem,
    problem_of,
)
from ledger.api.http.requests import UnstorableText, is_allowed_host, parse_json, unquoted
from ledger.api.http.responses import address_of, json_response
from ledger.api.http.schemas import BODY, In, OutcomeOut, Reason, Text200, refusals

__all__ = [
    "BODY",
    "CERTAIN",
    "HAS_WAITED",
    "PROBLEM_TYPE",
    "TOKEN_IS_KNOWN",
    "UNCERTAIN",
    "AgentBearer",
    "In",
    "OutcomeOut",
    "Reason",
    "Text200",
    "UnstorableText",
    "address_of",
    "caller_of",
    "database_away",
    "is_allowed_host",
    "json_response",
    "not_authenticated",
    "parse_json",
    "problem",
    "problem_of",
    "refusals",
    "token_in",
    "unquoted",
]
