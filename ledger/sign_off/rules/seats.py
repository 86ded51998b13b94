"""Seats and the voters that fill them. Pure.

Two seats are two people: a voter who is in two groups fills one seat of one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ledger.sign_off.rules.terms import Terms


def seating(terms: Terms, voters: Sequence[Collection[str]]) -> list[tuple[str, int | None]]:
    """Every seat with its group, empty for anybody's, and the place of the voter who fills it.

    The voters are given by their groups. Seats of a group are for its members; what is left up to
    the quorum is for anybody. As many seats as can be are filled.
    """
    seats = [group for group, number in sorted(terms.groups.items()) for _ in range(number)]
    taken: dict[int, int] = {}  # by seat its voter

    def seat(voter: int, tried: set[int]) -> bool:
        """Find the voter a seat, if need be by having others move up."""
        for place, group in enumerate(seats):
            if group in voters[voter] and place not in tried:
                tried.add(place)
                if place not in taken or seat(taken[place], tried):
                    taken[place] = voter
                    return True
        return False

    others = [voter for voter in range(len(voters)) if not seat(voter, set())]
    free: list[int | None] = [*others, *[None] * terms.quorum][: terms.quorum - len(seats)]
    of_groups = [(group, taken.get(place)) for place, group in enumerate(seats)]
    return [*of_groups, *(("", voter) for voter in free)]


def filled_seats(terms: Terms, voters: Sequence[Collection[str]]) -> int:
    """The most seats that these voters fill; ``terms.quorum`` when it is all of them."""
    return sum(voter is not None for _, voter in seating(terms, voters))


def are_filled(terms: Terms, voters: Sequence[Collection[str]]) -> bool:
    return filled_seats(terms, voters) >= terms.quorum


def open_seats(terms: Terms, voters: Sequence[Collection[str]]) -> list[str] | None:
    """The groups of which one more can fill a seat; ``""`` for anybody, ``None`` without groups."""
    if not terms.groups:
        return None
    filled = filled_seats(terms, voters)
    return [
        name
        for name in ("", *sorted(terms.groups))
        if filled_seats(terms, [*voters, frozenset({name})]) > filled
    ]
