"""The chain of one subject: its events, each in its place, each a move that the map has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from ledger import seals, states
from ledger.events import reason_faults
from ledger.models import Event
from ledger.seals import Link
from ledger.states import Move

Map = Mapping[str, Move[Any]]
MOVES: Map = states.BY_KIND
ACCOUNT = "account"  # a person has an account of no tenant, and roles in one or several


def links_of(subject: UUID) -> list[Link]:
    return links_of_each([subject])[subject]


def links_of_each(subjects: Collection[UUID]) -> dict[UUID, list[Link]]:
    """Their chains, each from its first event on."""
    rows = Event.objects.filter(subject__in=subjects).order_by("subject", "seq")
    chains: dict[UUID, list[Link]] = {subject: [] for subject in subjects}
    for values in rows.values_list(*Link._fields):
        link = Link(*values)
        chains[link.subject].append(link)
    return chains


def chain_faults(links: Sequence[Link], moves: Map, noun: str = "transaction") -> Iterator[str]:
    """Check the positions, hashes and moves of one chain, from its first event on."""
    seq, previous, state = 1, "", ""
    for link in links:
        if link.seq != seq:
            yield f"event {seq} of {noun} {link.subject} is missing."
        elif (link.previous_hash, link.from_state) != (previous, state):
            yield f"{name_of(link, noun)} does not follow the event before it."
        if link.hash != seals.hash_of(link):
            yield f"{name_of(link, noun)} was changed."
        if link.tenant != links[0].tenant and noun != ACCOUNT:
            yield f"{name_of(link, noun)} belongs to another tenant than the event before it."
        for fault in _move_faults(link, moves):
            yield f"{name_of(link, noun)}: {fault}"
        seq, previous, state = link.seq + 1, link.hash, link.to_state
    for link, fault in reason_faults(links):
        yield f"{name_of(link, noun)}: {fault}"


def name_of(link: Link, noun: str = "transaction") -> str:
    return f"event {link.id} of {noun} {link.subject}"


def _move_faults(link: Link, moves: Map) -> Iterator[str]:
    arrow = moves.get(link.kind)
    if arrow is None:
        yield f"{link.kind!r:.40} is no move."
        return
    starts_well = link.from_state in arrow.sources if arrow.sources else link.seq == 1
    if not starts_well:
        yield f"{link.kind} does not lead out of {link.from_state or 'nothing'!r}."
    if link.to_state != (link.from_state if arrow.target is None else arrow.target):
        yield f"{link.kind} does not lead to {link.to_state!r:.40}."
