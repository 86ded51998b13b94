"""Changes of git buses, as the audit log seals them."""

from __future__ import annotations

from enum import StrEnum

from ledger.errors import Sentence


class BusChange(StrEnum):
    """The values never change: they are sealed."""

    ADDED = "bus_added"
    CHANGED = "bus_changed"
    REQUEST_WISHED = "bus_request_wished"
    HISTORY_REWRITTEN = "bus_history_rewritten"
    REQUEST_SETTLED = "bus_request_settled"


DESCRIPTIONS: dict[str, str] = {
    BusChange.ADDED: Sentence("added a git bus"),
    BusChange.CHANGED: Sentence("changed a git bus"),
    BusChange.REQUEST_WISHED: Sentence("wants something to be done with a request of a git bus"),
    BusChange.HISTORY_REWRITTEN: Sentence("found the history of a git repository rewritten"),
    BusChange.REQUEST_SETTLED: Sentence("did with a request what an operator wanted"),
}
