"""Operators' orders for requests on git buses; the process of the buses carries them out."""

from __future__ import annotations

from django.db.models.functions import Now
from django.db.transaction import atomic

from a2a.doors.git_bus.changes import BusChange
from a2a.doors.git_bus.models import BusRequest, GitBus, Progress, Wish
from ledger.errors import LedgerError, NotFound, Sentence
from ledger.events import record_change
from ledger.principals import Principal, Surface

# From which progress each wish can be carried out, of requests that others have sent.
POSSIBLE = {
    Wish.RELEASE: frozenset({Progress.ELSEWHERE, Progress.PROBLEM}),
    Wish.REFUSE: frozenset({Progress.LEFT, Progress.HELD, Progress.ELSEWHERE, Progress.PROBLEM}),
    Wish.RETRY: frozenset({Progress.LEFT, Progress.HELD, Progress.PROBLEM}),
}
# Of those that we have sent, somebody may have claimed one and never answered.
OF_OURS = {Wish.RELEASE: frozenset({Progress.SENT})}


class WishImpossible(LedgerError):
    """The request has moved on, so that the wish has no meaning any more."""

    code = "wish_impossible"
    status = 409
    title = Sentence("Not possible with the request as it is")


def possible_for(row: BusRequest) -> list[Wish]:
    """The wishes that an operator may express for the request as it is."""
    if row.task_id is not None and not row.is_ours:
        return []  # the task is canceled at the desk, which answers the request as well
    table = OF_OURS if row.is_ours else POSSIBLE
    return [wish for wish, sources in table.items() if row.progress in sources]


def wish_for(pk: int, wish: Wish, *, by: Principal, via: Surface, reason: str) -> BusRequest:
    """Note the wish, seal it, and let the bus have its turn. Raises ``NotFound, WishImpossible``.

    A later wish replaces an earlier one that is not carried out yet.
    """
    with atomic():
        rows = BusRequest.objects.select_for_update(of=("self",))
        row = rows.select_related("bus__agent").filter(pk=pk).first()
        if row is None:
            raise NotFound()
        if wish not in possible_for(row):
            raise WishImpossible(
                Sentence(
                    "The request is {state} by now. Nothing was changed.",
                    state=row.get_progress_display(),
                )
            )
        row.wish, row.wished_by, row.wished_blob = wish, by.name[:200], row.blob
        row.save(update_fields=["wish", "wished_by", "wished_blob"])
        GitBus.objects.filter(pk=row.bus_id).update(look_at=Now())
        record_change(
            f"git_bus:{row.bus_id}",
            BusChange.REQUEST_WISHED,
            tenant=row.bus.agent.tenant_id,
            by=by,
            via=via,
            name=str(row.bus)[:200],
            details={"request": row.request_id, "wish": wish.value},
            reason=reason,
        )
    return row
