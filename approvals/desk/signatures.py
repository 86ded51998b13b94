"""Signatures of a transaction: who has signed and who still can, as the item draws it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.utils.translation import gettext as _, ngettext

from approvals.desk import policies, seats
from approvals.models import Membership, Role
from approvals.people import name_of, principal_of
from approvals.presentation import in_words
from approvals.presentation.labels import first_large
from ledger.contracts import RequiredApprover
from ledger.models import Decision, Transaction
from ledger.principals import Principal
from ledger.sign_off.rules import sentences
from ledger.states import State

NAMED_MOST = 6  # people


@dataclass(frozen=True, slots=True)
class Signatures:
    """``signed`` counts for the quorum; of ``candidates``, ``missing`` have yet to sign."""

    needs: str
    signed: list[Decision]
    candidates: list[str]
    missing: int
    others: str = ""  # the candidates but the viewer, in a phrase
    seats: tuple[seats.Seat, ...] = ()  # where rules ask for groups
    of_nobody: tuple[str, ...] = ()  # groups whose seats are open and that have no member
    why: str = ""  # who signs by the rules, and because of which

    @property
    def approve_label(self) -> str:
        """The label of the button of an irreversible transaction."""
        return _("Approve as the first") if self.missing > 1 else _("Approve for good")

    @property
    def is_each(self) -> bool:
        """True if everybody who can sign has to."""
        return len(self.candidates) == self.missing

    @property
    def waits_for(self) -> str:
        """The candidates in a phrase: ``You or Bob Tanaka``."""
        return either_of(self.candidates)


def signatures_of(row: Transaction, viewer: str = "") -> Signatures:
    """The signatures of a transaction; the viewer, a principal, is called “You”."""
    signed = seats.counted_approvals(row)
    is_open = row.state == State.PREPARED
    candidates = _candidates(row, viewer) if is_open else []
    missing = policies.missing_approvals(row) if is_open else 0
    others = either_of([name for name in candidates if name != _("You")])
    return Signatures(
        _needs(row),
        signed,
        candidates,
        missing,
        others,
        tuple(seats.seats_of(row)),
        tuple(seats.groups_of_nobody(row)) if is_open else (),
        why_signed(row),
    )


def why_signed(row: Transaction) -> str:
    """The people who have to sign by the rules, and because of which; empty without rules."""
    return first_large(in_words(sentences.why(row.tenant, row.terms) or ""))


def _needs(row: Transaction) -> str:
    """``Two managers.``: how many of whom the contract asks for."""
    if policies.passed_on_by(row) is None:
        if row.required_approver == RequiredApprover.NONE:
            return _("Nobody: it passes by policy.")
        if row.required_approver == RequiredApprover.SUPERVISOR and row.quorum == 1:
            return _("A supervising agent or one manager.")
    if seats.terms_of(row).groups:
        return f"{first_large(in_words(sentences.who_signs(seats.terms_of(row))))}."
    return f"{first_large(managers_in_words(row.quorum))}."


def managers_in_words(count: int) -> str:
    """``one manager``, ``two managers``, ``5 managers``."""
    words = {1: _("one manager"), 2: _("two managers"), 3: _("three managers")}
    other = ngettext("{count} manager", "{count} managers", count).format(count=count)
    return words.get(count, other)


def _candidates(row: Transaction, viewer: str) -> list[str]:
    """The people who can still sign, the viewer first."""
    gone = {row.proposed_by, *policies.barred_keepers_of(row)}
    if row.quorum > 1:
        gone |= seats.makers_of(row)
    for given in seats.counted_approvals(row):
        gone |= {given.principal, given.kept_by}
    people = holders_of(row.tenant, Role.APPROVER, among=seats.signers(row))
    left = [person for person in people if str(principal_of(person)) not in gone]
    left.sort(key=lambda person: str(principal_of(person)) != viewer)
    is_viewer = [str(principal_of(person)) == viewer for person in left[:NAMED_MOST]]
    names = [
        _("You") if own else name_of(person)
        for person, own in zip(left[:NAMED_MOST], is_viewer, strict=True)
    ]
    return [*names, _("others")] if len(left) > NAMED_MOST else names


def holders_of(tenant: str, role: Role, *, among: Collection[str] | None = None) -> list[User]:
    """The people who have the role, by name; of these principals, if they are given."""
    having = Membership.objects.filter(tenant=tenant, role=role)
    people = User.objects.filter(memberships__in=having, is_active=True)
    if among is not None:
        keys = [Principal.parse(principal).user_key for principal in among]
        people = people.filter(pk__in=[key for key in keys if key is not None])
    return list(people.order_by("first_name", "username")[: NAMED_MOST * 3])


def either_of(names: list[str]) -> str:
    """``Alice Moreau, Bob Tanaka or Carol Ito``."""
    if len(names) < 2:
        return "".join(names)
    return _("{names} or {last}").format(names=", ".join(names[:-1]), last=names[-1])
