"""``Terms``: what a sign-off takes. Pure.

Terms are a lattice: ``join`` is the stricter of two in every part. It is associative, commutative
and idempotent, so the order of rules does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ledger.contracts import Contract, RequiredApprover

# The built-in groups. Every member of another group is an approver as well, so that seats of
# approvers count all people together; those of supervisors may be filled by people, too.
APPROVERS = "approvers"
SUPERVISORS = "supervisors"
BUILT_IN = frozenset({APPROVERS, SUPERVISORS})


class Strength(StrEnum):
    """The least that a person does to approve, from light to strong."""

    CLICK = "click"
    TYPED = "typed"
    PASSKEY = "passkey"  # signed with a key of the person


STRENGTHS = list(Strength)


@dataclass(frozen=True, slots=True)
class Terms:
    """The people who have to sign, and how. Without seats nobody has to.

    ``seats`` has the number of people by group. ``widen`` has, by group, who else may fill its open
    seats, and after how many seconds of waiting: ``{"finance": {"approvers": 7200}}``.
    """

    seats: Mapping[str, int] = field(default_factory=dict)
    widen: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    strength: Strength = Strength.CLICK
    desk_only: bool = False
    needs_note: bool = False
    one_by_one: bool = False  # not together with others
    is_denied: bool = False

    def join(self, other: Terms) -> Terms:
        """The stricter of the two, part by part."""
        groups = {*self.seats, *other.seats}
        return Terms(
            seats={
                group: max(self.seats.get(group, 0), other.seats.get(group, 0)) for group in groups
            },
            widen=self._joined_widening(other),
            strength=max(self.strength, other.strength, key=STRENGTHS.index),
            desk_only=self.desk_only or other.desk_only,
            needs_note=self.needs_note or other.needs_note,
            one_by_one=self.one_by_one or other.one_by_one,
            is_denied=self.is_denied or other.is_denied,
        )

    def _joined_widening(self, other: Terms) -> dict[str, dict[str, int]]:
        """Those who may sign by both, after the longer time; where one has no seats, by the other.

        A seat that one of them keeps for its group alone stays so.
        """
        widen: dict[str, dict[str, int]] = {}
        for group in {*self.widen, *other.widen}:
            own, others = self.widen.get(group, {}), other.widen.get(group, {})
            if group not in self.seats:
                both = dict(others)
            elif group not in other.seats:
                both = dict(own)
            else:
                both = {name: max(own[name], others[name]) for name in own if name in others}
            if both:
                widen[group] = both
        return widen

    def opened_to(self, groups: Collection[str], waited_s: float) -> frozenset[str]:
        """The groups whose seats somebody who is in these may fill in their place by now."""
        return frozenset(
            group
            for group, others in self.widen.items()
            for name, after_s in others.items()
            if waited_s >= after_s and (name == APPROVERS or name in groups)
        )

    def covers(self, other: Terms) -> bool:
        """True if these are at least as strict in every part."""
        return self.join(other) == self

    @property
    def groups(self) -> dict[str, int]:
        """The seats of groups that the tenant made."""
        return {name: number for name, number in self.seats.items() if name not in BUILT_IN}

    @property
    def quorum(self) -> int:
        """The number of different voters that it takes; 1 where nobody has to sign."""
        everybody = [self.seats.get(name, 0) for name in BUILT_IN]
        return max(*everybody, sum(self.groups.values()), 1)

    @property
    def required_approver(self) -> RequiredApprover:
        if not self.seats:
            return RequiredApprover.NONE
        if set(self.seats) == {SUPERVISORS}:
            return RequiredApprover.SUPERVISOR
        return RequiredApprover.HUMAN

    def as_json(self) -> dict[str, Any]:
        """Without the parts that ask for nothing."""
        return {
            **({"seats": dict(sorted(self.seats.items()))} if self.seats else {}),
            **(
                {"widen": {group: dict(self.widen[group]) for group in sorted(self.widen)}}
                if self.widen
                else {}
            ),
            **({"strength": self.strength.value} if self.strength != Strength.CLICK else {}),
            **({"desk_only": True} if self.desk_only else {}),
            **({"note": True} if self.needs_note else {}),
            **({"one_by_one": True} if self.one_by_one else {}),
            **({"deny": True} if self.is_denied else {}),
        }


def terms_from(value: Mapping[str, Any]) -> Terms:
    """The terms of ``Terms.as_json()``. Raises ``ValueError`` for a strength that does not exist"""
    return Terms(
        seats=dict(value.get("seats", {})),
        widen=dict(value.get("widen", {})),
        strength=Strength(value.get("strength", Strength.CLICK)),
        desk_only=value.get("desk_only") is True,
        needs_note=value.get("note") is True,
        one_by_one=value.get("one_by_one") is True,
        is_denied=value.get("deny") is True,
    )


@dataclass(frozen=True, slots=True)
class Base:
    """The terms of a contract, and the floor that no rule goes below."""

    own: Terms
    floor: Terms


def base_of(
    required_approver: str, quorum: int, *, desk_only: bool, floor: str, strength: str = "click"
) -> Base:
    """The base of a contract, from its fields; an empty ``floor`` is the contract itself."""
    how = Terms(desk_only=desk_only, strength=Strength(strength))
    own = replace(how, seats=_seats(required_approver, quorum))
    return Base(own, replace(how, seats=_seats(floor, 1)) if floor else own)


def base_of_contract(contract: Contract) -> Base:
    return base_of(
        contract.required_approver,
        contract.quorum,
        desk_only=contract.web_only,
        floor=contract.floor,
        strength=contract.strength,
    )


def _seats(required_approver: str, quorum: int) -> dict[str, int]:
    groups = {RequiredApprover.HUMAN: APPROVERS, RequiredApprover.SUPERVISOR: SUPERVISORS}
    group = groups.get(RequiredApprover(required_approver))
    return {group: quorum} if group else {}
