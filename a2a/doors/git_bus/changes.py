"""Changes of git buses, as the audit log seals them."""

from __future__ import annotations

from django.db.models import TextChoices

from ledger.errors import Sentence


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
