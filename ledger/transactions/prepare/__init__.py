"""From a proposal to a prepared transaction: plan, check, insert. ``prepare`` has the verbs."""

from ledger.transactions.prepare.abandoned_plans import is_held_by, key_of_hold, release_later
from ledger.transactions.prepare.answers import Answer
from ledger.transactions.prepare.drafts import columns, truth_of
from ledger.transactions.prepare.planning import Planned
from ledger.transactions.prepare.plans_in_time import (
    answer_in_time,
    context_of,
    planned_in_time,
    release,
)
from ledger.transactions.prepare.proposals import (
    KEY_MAX,
    PREPARE_ROUTE,
    Proposal,
    Request,
    check_touches,
    checked,
)

__all__ = [
    "KEY_MAX",
    "PREPARE_ROUTE",
    "Answer",
    "Planned",
    "Proposal",
    "Request",
    "answer_in_time",
    "check_touches",
    "checked",
    "columns",
    "context_of",
    "is_held_by",
    "key_of_hold",
    "planned_in_time",
    "release",
    "release_later",
    "truth_of",
]
