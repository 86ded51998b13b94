"""Changes of git buses, as the audit log seals them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import TextChoices

from ledger.errors import Sentence
from ledger.events import record_change
from ledger.principals import Principal, Surface

if TYPE_CHECKING:
    from a2a.doors.git_bus.models import GitBus


class BusChange(TextChoices):
    """The values never change: they are sealed."""

    ADDED = "bus_added", Sentence("connected an agent through a git repository")
    CHANGED = "bus_changed", Sentence("changed how an agent is reached through a git repository")
    REQUEST_WISHED = (
        "bus_request_wished",
        Sentence("wants something to be done with a request in a git repository"),
    )
    HISTORY_REWRITTEN = (
        "bus_history_rewritten",
        Sentence("found the history of a git repository rewritten"),
    )
    REQUEST_SETTLED = "bus_request_settled", Sentence("did with a request what an operator wanted")


def methods_in_words(bus: GitBus) -> list[str]:
    """As the audit log keeps them: ``draft.text → consolidate``, ``←`` for those done there."""
    rows = bus.methods.order_by("method")
    return [f"{row.method} {'→' if row.is_ours else '←'} {row.skill}" for row in rows]


def record(
    row: GitBus, kind: BusChange, edits: dict[str, list[Any]], *, by: Principal, via: Surface
) -> None:
    """Append what was done to the bus; ``edits`` are without secrets."""
    record_change(
        f"git_bus:{row.pk}",
        kind,
        tenant=row.agent.tenant_id,
        by=by,
        via=via,
        name=str(row)[:200],
        details={"edits": edits},
    )
