"""The list of the inbox as templates need it: beside an open item, and by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from approvals.desk import MINE, Viewer, inbox, policies, stopped_among, voters_of
from approvals.desk.inbox import MOST_ROWS, Filters
from approvals.web.forms import RISKS, FilterForm, without_term
from approvals.web.record.pending import sentence_of
from approvals.web.requests import brakes_of, counts_of, viewer_of
from ledger.tools import tools_of


def list_context(request: HttpRequest) -> dict[str, Any]:
    """The first rows of the list; the browser asks for the others while one scrolls.

    ``n`` in the query is how many it has already, if it asks for all of them again.
    """
    form, viewer, now = FilterForm(request.GET), viewer_of(request), timezone.now()
    filters, after = form.filters(), request.GET.get("after", "")
    most = _most(request.GET.get("n", ""))
    listing = inbox.waiting(viewer, filters, now, after=after, most=most)
    shown, aside = sum(listing.total.values()), inbox.set_aside_by(viewer)
    return {
        "groups": inbox.grouped(listing, 0 if filters.is_set else counts_of(request).rows),
        **({} if after or filters.is_set else _checks(request, viewer)),
        "chips": list(_chips(request, filters, _agent_name(listing, filters.agent))),
        "listing": listing,
        "shown": shown,
        "is_cut": shown >= MOST_ROWS,
        "lapsed": sum(entry.is_lapsed for entry in listing.entries),
        "several": _several(listing),
        "voters": voters_of(entry.tx for entry in listing.entries if entry.tx),
        "stopped": stopped_among(
            (entry.tx for entry in listing.entries if entry.tx), brakes_of(request)
        ),
        "viewer": viewer,
        "aside": aside,
        "first_back": min(aside.values(), default=None),
        "all_waiting": inbox.count_all(viewer) if not shown and filters.is_set else shown,
        "filters": filters,
        "form": form,
        "tool_names": sorted(tools_of(viewer.tenants)),
    }


def _several(listing: inbox.Listing) -> list[tuple[str, int]]:
    """Tools of which several wait for this person, that can be decided together, with how many."""
    rows = [entry.tx for entry in listing.entries if entry.rank in MINE and entry.tx]
    each_alone = (policies.is_irreversible, policies.asks_to_sign)
    numbers = Counter(row.tool for row in rows if not any(asks(row) for asks in each_alone))
    return [(tool, number) for tool, number in numbers.most_common(2) if number > 1]


def _checks(request: HttpRequest, viewer: Viewer) -> dict[str, Any]:
    """Changes and samples for a second pair of eyes, as rows of the list."""
    counts = counts_of(request)
    listed = inbox.changes(viewer)[: inbox.MOST_CHANGES] if counts.changes else []
    return {
        "pending_changes": [(change, sentence_of(change)) for change in listed],
        "more_changes": max(0, counts.changes - inbox.MOST_CHANGES),
        "samples": inbox.samples(viewer) if counts.reviews else [],
    }


def _chips(request: HttpRequest, filters: Filters, agent: str) -> Iterator[tuple[str, str]]:
    """Each filter that is set, in words, and the query of the list without it."""
    named = {
        "tool": _("questions") if filters.tool == inbox.ONLY_QUESTIONS else filters.tool,
        "risk": str(dict(RISKS).get(filters.risk, "")),
        "agent": agent,
        "aside": _("set aside") if filters.aside else "",
    }
    for name, text in named.items():
        if text:
            rest = request.GET.copy()
            for other in (name, "after", "n"):
                rest.pop(other, None)
            rest["q"] = without_term(rest.get("q", ""), name)
            yield text, rest.urlencode()


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
