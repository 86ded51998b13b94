"""The revisions in a chain: which one is live, who made it, and what was sealed of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger import seals, states
from ledger.principals import Principal
from ledger.seals import Link

REVISED = states.REVISE.kind
_SEALS = frozenset({REVISED, states.CONFIRM_PLAN.kind})


def number_in(links: Sequence[Link]) -> int:
    """The number of the live revision after these events, from 1."""
    return 1 + sum(link.kind == REVISED for link in links)


def makers_in(links: Sequence[Link]) -> frozenset[str]:
    """The people who changed it, also where others have done so since: none of them signs it off
    where two have to."""
    made = {link.principal for link in links if link.kind == REVISED}
    return frozenset(maker for maker in made if Principal.parse(maker).is_user)


def sealed_last(links: Sequence[Link], name: str) -> Any:
    """The digest, or the evidence, that the last of these events sealed of the live revision."""
    for link in reversed(links):
        if name in link.says and (link.seq == 1 or link.kind in _SEALS):
            return link.says[name]
        if link.kind == REVISED and name == seals.EVIDENCE:
            return None
    return None
