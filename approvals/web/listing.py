"""The list of the inbox as templates need it: beside an open item, and by itself."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from approvals.desk import inbox, voters_of
from approvals.desk.inbox import MOST_ROWS
from approvals.web.forms import FilterForm
from approvals.web.requests import viewer_of, waiting_count
from ledger.tools import tools_of


def list_context(request: HttpRequest) -> dict[str, Any]:
    """The first rows of the list; the browser asks for the others while one scrolls.

    ``n`` in the query is how many it has already, if it asks for all of them again.
    """
    form, viewer, now = FilterForm(request.GET), viewer_of(request), timezone.now()
    filters, after = form.filters(), request.GET.get("after", "")
    most = _most(request.GET.get("n", ""))
    listing = inbox.waiting(viewer, filters, now, after=after, most=most)
    shown = sum(listing.total.values())
    return {
        "groups": inbox.grouped(listing, 0 if filters.is_set else waiting_count(request)),
        "listing": listing,
        "shown": shown,
        "is_cut": shown >= MOST_ROWS,
        "lapsed": sum(entry.is_lapsed for entry in listing.entries),
        "voters": voters_of(entry.tx for entry in listing.entries if entry.tx),
        "viewer": viewer,
        "agent_name": _agent_name(listing, filters.agent),
        "all_waiting": inbox.count_all(viewer) if not shown and filters.is_set else shown,
        "filters": filters,
        "form": form,
        "tool_names": sorted(tools_of(viewer.tenants)),
    }


def _most(number: str) -> int:
    wanted = int(number) if number.isascii() and number.isdecimal() else 0
    return min(max(wanted, inbox.PAGE), MOST_ROWS)


def _agent_name(listing: inbox.Listing, principal: str) -> str:
    """The label of the one agent whose rows are listed; empty when all agents' are."""
    for entry in listing.entries[:1]:
        if principal and entry.tx is not None:
            return entry.tx.proposed_by_name
        if principal and entry.question is not None:
            return entry.question.asked_by_name
    return principal.partition("/")[2] or principal
