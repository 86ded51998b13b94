"""Checks a transaction's row against its sealed events. Reads only.

The application's database role can update a row, but not a sealed event. So these rules start
from the events, and trust a column only where an event sealed it. Workers run them before each
call of a tool; ``verify_ledger`` runs them over the whole audit log. Each fault is a sentence
that names the row.
"""

from ledger.transactions.sign_offs.actors import (
    is_grave,
    lacks_policy,
    sign_off_faults,
)
from ledger.transactions.sign_offs.advice import RECOMMENDS, standing_advice
from ledger.transactions.sign_offs.chains import (
    ACCOUNT,
    MOVES,
    Map,
    chain_faults,
    links_of,
    links_of_each,
)
from ledger.transactions.sign_offs.former import Former, as_of, former_of, revision_faults
from ledger.transactions.sign_offs.rows import (
    outcome_faults,
    row_faults,
    why_not_to_act,
    why_not_to_begin,
)
from ledger.transactions.sign_offs.terms import charge_faults, terms_faults

__all__ = [
    "ACCOUNT",
    "MOVES",
    "RECOMMENDS",
    "Former",
    "Map",
    "as_of",
    "chain_faults",
    "charge_faults",
    "former_of",
    "is_grave",
    "lacks_policy",
    "links_of",
    "links_of_each",
    "outcome_faults",
    "revision_faults",
    "row_faults",
    "sign_off_faults",
    "standing_advice",
    "terms_faults",
    "why_not_to_act",
    "why_not_to_begin",
]
