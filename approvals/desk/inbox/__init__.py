"""The inbox: order, shares, totals, neighbouring rows, and who is involved in them."""

from approvals.desk.inbox.aside import choices, is_aside, set_aside, set_aside_by, take_back
from approvals.desk.inbox.checks import MOST_CHANGES, Counts, Sample, changes, counts, samples
from approvals.desk.inbox.fair_share import MOST_ROWS
from approvals.desk.inbox.inbox import (
    ONLY_QUESTIONS,
    PAGE,
    Entry,
    Filters,
    Listing,
    changed,
    count,
    count_all,
    grouped,
    waiting,
)
from approvals.desk.inbox.involved import involved
from approvals.desk.inbox.neighbours import beside
from approvals.desk.inbox.totals import totals_of

__all__ = [
    "MOST_CHANGES",
    "MOST_ROWS",
    "ONLY_QUESTIONS",
    "PAGE",
    "Counts",
    "Entry",
    "Filters",
    "Listing",
    "Sample",
    "beside",
    "changed",
    "changes",
    "choices",
    "count",
    "count_all",
    "counts",
    "grouped",
    "involved",
    "is_aside",
    "samples",
    "set_aside",
    "set_aside_by",
    "take_back",
    "totals_of",
    "waiting",
]
