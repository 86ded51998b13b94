"""The view that a long-poll for a transaction has of it; see ``ledger.api.waiting``."""

from __future__ import annotations

from ledger.agents import callers_at
from ledger.api.pending import PAGE, PAGE_MOST, PageRequest, pending
from ledger.api.rendering import versioned
from ledger.api.visibility import may_see
from ledger.api.waiting import LongPolls, Look, Poll
from ledger.models import Transaction
from ledger.states import FINAL

__all__ = ["PAGE", "PAGE_MOST", "PageRequest", "pending", "transactions"]


def _look_all(polls: list[Poll]) -> list[Look | None]:
    """``detail`` of each poll is the entity tag that its client has, or empty."""
    callers = callers_at([(poll.token, poll.resource) for poll in polls])
    rows = Transaction.objects.filter(pk__in={poll.subject for poll in polls})
    rows_by_id = {row.pk: row for row in rows.prefetch_related("decisions")}
    etags = {pk: versioned(row)[1] for pk, row in rows_by_id.items()}
    looks: list[Look | None] = []
    for poll, caller in zip(polls, callers, strict=True):
        row = rows_by_id.get(poll.subject)
        if caller is None or row is None or not may_see(caller, row):
            looks.append(None)
            continue
        etag = etags[row.pk]
        is_over = row.state in FINAL or poll.detail not in {"", etag}
        looks.append(Look(caller.tenant, str(caller.principal), etag, is_over))
    return looks


transactions = LongPolls(_look_all)
