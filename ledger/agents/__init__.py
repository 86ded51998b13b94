"""Agents: ``callers`` (who a token belongs to), ``allowances`` (their tools), ``enrolment``."""

from __future__ import annotations

from ledger.agents.allowances import (
    ONE_TOOL,
    Lists,
    allow,
    covers,
    lists_of,
    may_propose,
    narrowed,
    unknown,
)
from ledger.agents.callers import (
    Caller,
    caller_with,
    callers_at,
    callers_of,
    callers_with,
    holders_of,
    note_use,
)
from ledger.agents.keepers import agents_of, keepers_of, keepers_of_each, sealed_keepers
from ledger.agents.policy_documents import (
    POLICY_LABEL,
    Citation,
    keep_policy,
    kept_policy,
    sealed_citation,
)

__all__ = [
    "ONE_TOOL",
    "POLICY_LABEL",
    "Caller",
    "Citation",
    "Lists",
    "agents_of",
    "allow",
    "caller_with",
    "callers_at",
    "callers_of",
    "callers_with",
    "covers",
    "holders_of",
    "keep_policy",
    "keepers_of",
    "keepers_of_each",
    "kept_policy",
    "lists_of",
    "may_propose",
    "narrowed",
    "note_use",
    "sealed_citation",
    "sealed_keepers",
    "unknown",
]
