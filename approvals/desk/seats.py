"""Seats of a sign-off, where the rules of a tenant ask for groups: who fills one, and who could."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from django.utils import timezone

from ledger.models import Decision, Transaction, Verdict
from ledger.principals import Principal, Surface
from ledger.seals import Link
from ledger.sign_off import groups, passkeys, revisions
from ledger.sign_off.rules import Strength, Terms, filled_seats, seating, terms_from
from ledger.states import EventKind
from ledger.transactions import (
    is_signed_in_advance,
    may_be_replaced,
    seats_open_to,
    standing_approval,
    terms_of_vote_faults,
)

APPROVALS = frozenset({EventKind.APPROVED, EventKind.APPROVAL_RECORDED})


@dataclass(frozen=True, slots=True)
class Seat:
    """One seat. It is anybody's without a group, and open without who has signed."""

    group: str
    signed: Decision | None = None


def terms_of(row: Transaction) -> Terms:
    """The terms by the rules; asking for nothing where there are no rules, or if unreadable."""
    try:
        return terms_from(row.terms) if row.terms else Terms()
    except ValueError:
        return Terms()


def counted_approvals(row: Transaction) -> list[Decision]:
    """The approvals that count: only those of people, once it was passed on; as the rules ask."""
    given = list(row.decisions.all())
    approvals = [each for each in given if each.verdict == Verdict.APPROVE]
    if any(each.verdict == Verdict.PASS_ON for each in given):
        approvals = [each for each in approvals if Principal.parse(each.principal).is_user]
    terms = terms_of(row)
    if not terms.seats:
        return approvals
    return [each for each in approvals if _fits(row, each, terms)]


def _fits(row: Transaction, approval: Decision, terms: Terms) -> bool:
    """False for one that was given before the rules asked for a note, for typing, for the desk."""
    if terms.desk_only and approval.via not in {Surface.WEB, Surface.GRANT}:
        return False
    if terms.needs_note and not approval.reason.strip():
        return False
    if terms.strength == Strength.CLICK:
        return True
    link = _sealed(row).get(approval.principal)
    return link is not None and not [*terms_of_vote_faults(link, terms)]


def seats_of(row: Transaction) -> list[Seat]:
    """Every seat, if the rules ask for groups; else none."""
    terms = terms_of(row)
    if not terms.groups:
        return []
    approvals = counted_approvals(row)
    taken = seating(terms, _voters(row, approvals))
    return [Seat(group, None if voter is None else approvals[voter]) for group, voter in taken]


def is_signed_by(row: Transaction, principal: str) -> bool:
    """True if a passkey signed the approval of this principal, or the grant that gave it."""
    link = _sealed(row).get(principal)
    if link is None:
        return False
    return passkeys.ASSERTION in link.says or is_signed_in_advance(link)


def missing_seats(row: Transaction) -> int:
    approvals, terms = counted_approvals(row), terms_of(row)
    filled = filled_seats(terms, _voters(row, approvals)) if terms.groups else len(approvals)
    return max(0, row.quorum - filled)


def can_fill(row: Transaction, own_groups: Collection[str]) -> bool:
    """True if an open seat takes somebody of these groups by now."""
    if row.open_seats is None:
        return True
    terms = terms_of(row)
    seats = frozenset(own_groups)
    if terms.widen:
        seats = seats_open_to({"groups": own_groups}, timezone.now(), links_in(row), terms)
    return not {"", *seats}.isdisjoint(row.open_seats)


def may_sign_again(row: Transaction, principal: str) -> bool:
    """True if an approval of this person fills no seat of what rules have asked for since."""
    vote = standing_approval(links_in(row), principal) if row.terms else None
    return vote is not None and may_be_replaced(vote, links_in(row))


def signers(row: Transaction) -> frozenset[str] | None:
    """The principals whom the open seats are for; ``None``: any manager."""
    terms = terms_of(row)
    if not terms.groups or can_fill(row, ()):
        return None
    of_person: dict[str, set[str]] = defaultdict(set)
    names = {*terms.groups, *(name for others in terms.widen.values() for name in others)}
    for group, members in groups.members_of(row.tenant, names).items():
        for member in members:
            of_person[member.person].add(group)
    return frozenset(person for person, own in of_person.items() if can_fill(row, own))


def makers_of(row: Transaction) -> frozenset[str]:
    """The people who changed it."""
    return revisions.makers_in(links_in(row)) if row.revision > 1 else frozenset()


def groups_of_nobody(row: Transaction) -> list[str]:
    """The groups that have to sign yet and have no member."""
    waiting = {name for name in row.open_seats or () if name}
    members = groups.members_of(row.tenant, waiting) if waiting else {}
    return sorted(name for name in waiting if not members[name])


def _voters(row: Transaction, approvals: Collection[Decision]) -> list[frozenset[str]]:
    """The seats that each approval may fill."""
    terms, sealed = terms_of(row), _sealed(row) if approvals else {}
    voters = []
    for each in approvals:
        link = sealed.get(each.principal)
        voters.append(
            seats_open_to(link.says, link.at, links_in(row), terms) if link else frozenset()
        )
    return voters


def _sealed(row: Transaction) -> dict[str, Link]:
    """The event of the latest approval of each principal."""
    return {link.principal: link for link in links_in(row) if link.kind in APPROVALS}


def links_in(row: Transaction) -> list[Link]:
    """The chain of the row. Read once for each instance: a page asks several times."""
    if "links_of_row" not in vars(row):
        events = sorted(row.events.all(), key=lambda event: event.seq)
        vars(row)["links_of_row"] = [
            Link(*(getattr(event, column) for column in Link._fields)) for event in events
        ]
    links: list[Link] = vars(row)["links_of_row"]
    return links
