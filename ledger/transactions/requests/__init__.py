"""A transaction while it waits: it is changed, talked about and given more time; and before it
begins, it is looked at again."""

from ledger.transactions.requests.advising import advise
from ledger.transactions.requests.revising import (
    NotEditable,
    revise,
    why_not_editable,
)
from ledger.transactions.requests.second_looks import look_again
from ledger.transactions.requests.talk import (
    THREAD,
    answer,
    ask,
    extend,
    longest_of,
    note,
    requests_to_agent,
)

__all__ = [
    "THREAD",
    "NotEditable",
    "advise",
    "answer",
    "ask",
    "extend",
    "longest_of",
    "look_again",
    "note",
    "requests_to_agent",
    "revise",
    "why_not_editable",
]
