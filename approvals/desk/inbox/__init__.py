"""The inbox: order, shares, totals, neighbouring rows, and who is involved in them."""

from approvals.desk.inbox.fair_share import MOST_ROWS
from approvals.desk.inbox.inbox import (
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
    "MOST_ROWS",
    "PAGE",
    "Entry",
    "Filters",
    "Listing",
    "beside",
    "changed",
    "count",
    "count_all",
    "grouped",
    "involved",
    "totals_of",
    "waiting",
]
