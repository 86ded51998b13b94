"""The verbs of a transaction (``coordinator``), its one writer of ``state``, and what it came to.

``transitions`` writes ``state``; only the modules that pyproject.toml names may import it.
"""

from __future__ import annotations

from ledger.agents import keepers_of
from ledger.transactions.deadlines import as_prepared, moved_by
from ledger.transactions.orders import described_settlement, needs_second_operator
from ledger.transactions.outcomes import (
    BY_STATE,
    FOR_ITS_AGENT,
    NOT_FINAL,
    OutcomeForAgent,
    OutcomeKind,
    outcome_of,
    refused_by_tool,
)
from ledger.transactions.settlements import STUCK_AFTER, open_outcomes
from ledger.transactions.sign_offs import (
    ACCOUNT,
    MOVES,
    RECOMMENDS,
    Former,
    Map,
    as_of,
    chain_faults,
    charge_faults,
    former_of,
    links_of,
    revision_faults,
    row_faults,
    sign_off_faults,
    standing_advice,
    terms_faults,
    why_not_to_act,
    why_not_to_begin,
)
from ledger.transactions.votes import (
    DECISIONS,
    asked_by,
    is_signed_in_advance,
    may_be_replaced,
    seats_open_to,
    standing_approval,
    standing_decisions,
    statement_of,
    terms_of_vote_faults,
    undo_until,
)

__all__ = [
    "ACCOUNT",
    "BY_STATE",
    "DECISIONS",
    "FOR_ITS_AGENT",
    "MOVES",
    "NOT_FINAL",
    "RECOMMENDS",
    "STUCK_AFTER",
    "Former",
    "Map",
    "OutcomeForAgent",
    "OutcomeKind",
    "as_of",
    "as_prepared",
    "asked_by",
    "chain_faults",
    "charge_faults",
    "described_settlement",
    "former_of",
    "is_signed_in_advance",
    "keepers_of",
    "links_of",
    "may_be_replaced",
    "moved_by",
    "needs_second_operator",
    "open_outcomes",
    "outcome_of",
    "refused_by_tool",
    "revision_faults",
    "row_faults",
    "seats_open_to",
    "sign_off_faults",
    "standing_advice",
    "standing_approval",
    "standing_decisions",
    "statement_of",
    "terms_faults",
    "terms_of_vote_faults",
    "undo_until",
    "why_not_to_act",
    "why_not_to_begin",
]
