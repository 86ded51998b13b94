"""Checks that content was erased lawfully: once, after its retention, under no hold. Pure.

An erasure empties the columns with content and seals the digest of what each had. The sealed
digest of the row is over those digests, so it can be computed again without the content: nothing
else of the row can have changed on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger import seals
from ledger.principals import Principal
from ledger.seals import Link
from ledger.states import EventKind

ERASED = frozenset({EventKind.CONTENT_ERASED, "task_content_erased"})
HELD = frozenset({EventKind.LEGAL_HOLD_PLACED, "task_legal_hold_placed"})
RELEASED = frozenset({EventKind.LEGAL_HOLD_RELEASED, "task_legal_hold_released"})


def erasure_in(links: Sequence[Link]) -> Link | None:
    """The event that sealed the erasure of the subject's content, if there is one."""
    return next((link for link in links if link.kind in ERASED), None)


def former_digests(erasure: Link) -> dict[str, str]:
    """The digest of each erased column's former text, by column name."""
    erased = erasure.says.get("erased")
    if not isinstance(erased, dict):
        return {}
    return {name: digest for name, digest in erased.items() if isinstance(digest, str)}


def reason_faults(links: Sequence[Link]) -> Iterator[tuple[Link, str]]:
    """Events whose reason is not the sealed one, or is still there after an erasure."""
    erasure = erasure_in(links)
    for link in links:
        if erasure is not None and link.seq < erasure.seq:
            if link.reason:
                yield link, "its reason is still there, though its erasure is sealed."
        elif seals.digest_of(link.reason) != link.reason_digest:
            yield link, "its reason is not the sealed one."


def order_faults(links: Sequence[Link], retain_until: str) -> Iterator[tuple[Link, str]]:
    """Erasures that were not allowed at their time. ``retain_until``: microseconds since 1970."""
    is_held, is_erased = False, False
    for link in links:
        is_held = link.kind in HELD or (is_held and link.kind not in RELEASED)
        if link.kind not in ERASED:
            continue
        if not Principal.parse(link.principal).is_system:
            yield link, f"{link.kind} is not for {link.principal}."
        if is_held:
            yield link, "the content was erased under a legal hold."
        if is_erased:
            yield link, "the content was erased before."
        if not retain_until.isdecimal() or int(seals.as_text(link.at)) < int(retain_until):
            yield link, "the content was erased before its retention was over."
        is_erased = True


def content_faults(row: Any, links: Sequence[Link], erasure: Link) -> Iterator[str]:
    """Columns of an erased transaction that are not empty, or not of the sealed digest."""
    former = former_digests(erasure)
    before = seals.sealed_outcome(link.says for link in links if link.seq < erasure.seq)
    for name in seals.EMPTY:
        if not seals.is_empty(name, getattr(row, name)):
            yield f"transaction {row.id}: {name} is not empty, though its erasure is sealed."
        if name in before and former.get(name) != (before[name] or seals.digest_of("")):
            yield f"transaction {row.id}: its erasure does not name the {name} that was sealed."
    if set(former) != set(seals.EMPTY):
        yield f"transaction {row.id}: its erasure does not name what each column had."
