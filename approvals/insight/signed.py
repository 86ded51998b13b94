"""Sign-offs by hand, by a grant, by a supervising agent, and of what nobody had to sign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.utils.translation import gettext as _

from approvals.insight.charts import Cell, Chart, Column, plain, strip
from ledger.principals import Principal
from ledger.reporting.usage.counting import GRANTS
from ledger.reporting.usage.figures import Pair
from ledger.states import EventKind


def signed_chart(pairs: Iterable[Pair]) -> Chart:
    """Sign-offs by how the last signature was given."""
    numbers: Counter[str] = Counter()
    for pair in pairs:
        numbers[_way_of(pair.decider)] += pair.kinds[EventKind.APPROVED]
    total = numbers.total()
    ways = (
        {}
        if not total
        else {
            "user": _("by people, by hand"),
            GRANTS: _("by people, in advance"),
            "agent": _("by supervising agents"),
            "system": _("by nobody: a rule or the contract lets it pass"),
        }
    )
    return Chart(
        "signed",
        _("How it was signed off"),
        _("What a rule or a grant let through, beside what somebody looked at."),
        [Column("way", _("Signed off"), is_number=False), Column("number", _("requests"))],
        [[Cell(name, name), plain(numbers[way])] for way, name in ways.items()],
        shares=[strip([(numbers[way], "accent", str(numbers[way]))], total) for way in ways],
    )


def _way_of(decider: str) -> str:
    return decider if decider == GRANTS else Principal.parse(decider).kind
