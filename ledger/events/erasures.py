"""Checks that content was erased lawfully: once, after its retention, under no hold. Pure.

An erasure empties the columns with content and seals the digest of what each had. The sealed
digest of the row is over those digests, so it can be computed again without the content: nothing
else of the row can have changed on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger import seals
from ledger.principals import Principal, PrincipalKind
from ledger.seals import Link
from ledger.states import EventKind

ERASED = frozenset({EventKind.CONTENT_ERASED, "task_content_erased"})
HELD = frozenset({EventKind.LEGAL_HOLD_PLACED, "task_legal_hold_placed"})
RELEASED = frozenset({EventKind.LEGAL_HOLD_RELEASED, "task_legal_hold_released"})


@dataclass(frozen=True, slots=True)
class SealedContent:
    """The way the events of an upper room's rows seal their content, and how long it is kept.

    ``names`` is what an erasure gives the digests of. The functions read events: until when the
    content is kept (microseconds since 1970, as text), the digests that were sealed, by name, and
    what the tables must hold by now.
    """

    names: frozenset[str]
    retain_until: Callable[[Sequence[Link]], str]
    digests: Callable[[Sequence[Link]], Mapping[str, str]]
    contents: Callable[[Sequence[Link]], Mapping[str, str]]


def erasure_in(links: Sequence[Link]) -> Link | None:
    """The event that sealed the erasure of the subject's content, if there is one."""
    return next((link for link in links if link.kind in ERASED), None)


def former_digests(erasure: Link) -> dict[str, str]:
    """The digest of each erased column's former text, by column name."""
    erased = erasure.says.get("erased")
    if not isinstance(erased, dict):
        return {}
    return {name: digest for name, digest in erased.items() if isinstance(digest, str)}


def has_legal_hold(links: Sequence[Link]) -> bool:
    """True if the last legal hold that these events placed was not released."""
    held = [link.kind in HELD for link in links if link.kind in HELD | RELEASED]
    return bool(held) and held[-1]


def reason_faults(links: Sequence[Link]) -> Iterator[tuple[Link, str]]:
    """Events whose reason is not the sealed one, or is still there after an erasure."""
    erasure = erasure_in(links)
    for link in links:
        if erasure is not None and link.seq < erasure.seq:
            if link.reason:
                yield link, "its reason is still there, though its erasure is sealed."
        elif seals.digest_of_text(link.reason) != link.reason_digest:
            yield link, "its reason is not the sealed one."


def order_faults(links: Sequence[Link], retain_until: str) -> Iterator[tuple[Link, str]]:
    """Erasures and releases that were not allowed. ``retain_until``: microseconds since 1970."""
    was_held, is_erased = False, False
    for link in links:
        was_held = link.kind in HELD or (was_held and link.kind not in RELEASED)
        if link.kind in RELEASED and Principal.parse(link.principal).kind != PrincipalKind.USER:
            yield link, f"{link.kind} is not for {link.principal}."
        if link.kind not in ERASED:
            continue
        if not Principal.parse(link.principal).is_system:
            yield link, f"{link.kind} is not for {link.principal}."
        if was_held:
            yield link, "the content was erased under a legal hold."
        if is_erased:
            yield link, "the content was erased before."
        if not retain_until.isdecimal() or int(seals.as_text(link.at)) < int(retain_until):
            yield link, "the content was erased before its retention was over."
        is_erased = True


def sealed_content_faults(
    links: Sequence[Link], content: SealedContent
) -> Iterator[tuple[Link, str]]:
    """Erasures of an upper room's row that were not allowed, or that name other content.

    Only events before the erasure say until when the content was kept, and what it was.
    """
    erasure = erasure_in(links)
    before = links if erasure is None else [link for link in links if link.seq < erasure.seq]
    yield from order_faults(links, content.retain_until(before))
    if erasure is None:
        return
    if not str(erasure.says.get("content_erased_at", "")).isdecimal():
        yield erasure, "it does not say when the content was erased."
    former = former_digests(erasure)
    if set(former) != content.names:
        yield erasure, "it does not name what each column had."
    for name, digest in content.digests(before).items():
        if former.get(name) != digest:
            yield erasure, f"it does not name the {name} that was sealed."


def content_faults(row: Any, links: Sequence[Link], erasure: Link) -> Iterator[str]:
    """Columns of an erased transaction that are not empty, or not of the sealed digest."""
    former = former_digests(erasure)
    before = seals.sealed_outcome(link.says for link in links if link.seq < erasure.seq)
    for name in seals.EMPTY:
        if not seals.is_empty(name, getattr(row, name)):
            yield f"transaction {row.id}: {name} is not empty, though its erasure is sealed."
        if name in before and former.get(name) != (before[name] or seals.digest_of_text("")):
            yield f"transaction {row.id}: its erasure does not name the {name} that was sealed."
    if row.content_erased_at is None:
        yield f"transaction {row.id}: its erasure does not say when the content was erased."
    if set(former) != set(seals.EMPTY):
        yield f"transaction {row.id}: its erasure does not name what each column had."
