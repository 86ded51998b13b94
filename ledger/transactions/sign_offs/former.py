"""Former revisions of a transaction: each is the one whose intent its events sealed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ledger import seals, states
from ledger.errors import InvalidRequest
from ledger.events import erasure_in
from ledger.models import Revision
from ledger.seals import Link
from ledger.sign_off import revisions
from ledger.transactions.deadlines import as_prepared
from ledger.transactions.sign_offs.chains import name_of

RESEALS = frozenset({revisions.REVISED, states.CONFIRM_PLAN.kind})
# The contents of the revisions that were replaced, by their number.
Former = Mapping[int, Any]


def former_of(subject: UUID, links: Sequence[Link]) -> Former:
    """They are only read where events say that there are some."""
    if revisions.number_in(links) == 1:
        return {}
    rows = Revision.objects.filter(transaction=subject).order_by("number")
    return dict(rows.values_list("number", "content"))


def as_of(row: Any, former: Former, links: Sequence[Link], number: int) -> Any | None:
    """The transaction as it was in this revision; ``None`` where its content is not the sealed
    one, or was erased."""
    revised = _revised(links)
    if number > len(revised):
        return row
    try:
        content = former[number]
        was = revisions.with_content(row, content)
        intent = seals.intent_of(was)
        is_sealed = seals.digest_of(intent) == revised[number - 1].says.get("replaces")
        shown = (intent["financial_impact"] or {}).get("amount", was.amount)
        is_exact = was.amount is None or Decimal(shown) == was.amount
    except (InvalidRequest, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    return was if is_sealed and is_exact and set(content) == {*revisions.CONTENT} else None


def revision_faults(row: Any, former: Former, links: Sequence[Link]) -> Iterator[str]:
    """Check that there are as many as events replaced, that each is what was replaced, and that
    what changed between them is what the events say."""
    name, revised = f"transaction {row.id}", _revised(links)
    if row.revision != revisions.number_in(links):
        yield f"{name}: revision is not what its events made it."
    if [*former] != [*range(1, len(revised) + 1)]:
        yield f"{name}: its former revisions are not those that its events replaced."
        return
    if erasure_in(links) is not None:
        yield from (f"{name}: revision {n} should be erased." for n in former if former[n] != {})
        return
    contents = []
    for number, content in former.items():
        contents.append(content)
        if as_of(row, former, links, number) is None:
            yield f"{name}: revision {number} is not what its events sealed."
            return
    contents.append(revisions.content_of(row))
    for link, before, after in zip(revised, contents, contents[1:], strict=False):
        paths = [change.path for change in revisions.changes_between(before, after)]
        named = link.says.get("changed")
        if not isinstance(named, list) or sorted(map(str, named)) != sorted(paths):
            yield f"{name_of(link)}: what it changed is not what it says."
    yield from _seal_faults(row, former, links)


def _seal_faults(row: Any, former: Former, links: Sequence[Link]) -> Iterator[str]:
    """Check that each later seal of the row goes on from the one before it: that nothing but what a
    plan fills was changed with it."""
    for number, link in enumerate(links):
        if link.kind not in RESEALS:
            continue
        before = links[:number]
        was = as_of(row, former, links, revisions.number_in(before))
        hold = link.says.get("replaced_hold")
        if was is None or not isinstance(hold, dict):
            yield f"{name_of(link)}: it does not say what it replaced."
            continue
        columns = {name: getattr(row, name) for name in (*seals.FIXED, "terms")}
        columns |= {name: getattr(was, name) for name in revisions.CONTENT}
        columns |= {
            "intent_digest": revisions.sealed_last(before, "intent_digest"),
            "hold_expires_at": hold.get("hold_expires_at"),
        }
        digest = seals.row_digest(
            SimpleNamespace(**columns),
            {"held": str(hold.get("held"))},
            links[0].says,
            as_prepared(links) or seals.as_text(row.expires_at),
        )
        if digest != revisions.sealed_last(before, "row_digest"):
            yield f"{name_of(link)}: it changed more of the row than a plan does."


def _revised(links: Sequence[Link]) -> list[Link]:
    return [link for link in links if link.kind == revisions.REVISED]
