"""Grants, proved: each is as its events sealed it, and signed only what it covered, while live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from ledger import seals
from ledger.errors import LedgerError
from ledger.events import ChangeKind, chain_of
from ledger.models import Event, Grant, Verdict
from ledger.principals import Principal, Surface
from ledger.proof.audit.histories import History
from ledger.proof.audit.rights import TOLERANCE
from ledger.seals import EPOCH, MICROSECOND, Link
from ledger.sign_off import grants, revisions
from ledger.sign_off.passkeys import ASSERTION
from ledger.sign_off.rules import are_taken, facts_of
from ledger.transactions import DECISIONS, as_of

KINDS = [ChangeKind.GRANT_GIVEN, ChangeKind.GRANT_ENDED, ChangeKind.BREAK_GLASS_ASKED]
# In the event of a vote by a grant.
MARKS = frozenset({"grant", "charges", "break_glass", grants.SIGNED})
COLUMNS = (
    *("tenant", "agent", "tool", "when", "budgets", "warnings", "typed", "is_break_glass", "why"),
    *("names", "tool_version"),
    *("transaction_id", "given_by", "given_by_name", "confirmed_by", "confirmed_by_name"),
    *("ends_at", "ended_at", "ended_by", "ended_by_name"),
)


@dataclass(frozen=True, slots=True)
class Given:
    """One grant as its events sealed it."""

    grant: Grant
    link: Link
    asked: Link | None  # of break-glass: by the first operator
    ended: Link | None

    def was_live(self, vote: Link) -> bool:
        """The ids of events are in the order in which its lock was held."""
        is_open = self.ended is None or vote.id < self.ended.id
        return self.link.id < vote.id and is_open and vote.at <= self.grant.ends_at + TOLERANCE

    def faults(self) -> Iterator[str]:
        grant, by, longest = self.grant, self.link.principal, grants.LONGEST
        if grant.is_break_glass:
            longest = grants.LONGEST_BREAK_GLASS
            if by != grant.confirmed_by or self.asked is None or by == grant.given_by:
                yield "one operator alone broke the glass."
        elif by != grant.given_by or grant.confirmed_by or not grant.tool:
            yield "it is no signature of who gave it."
        if not all(Principal.parse(signer).is_user for signer, _name in grant.signers):
            yield "only people sign in advance."
        if ASSERTION in self.link.says:
            yield from grants.giving_faults(self.link)
        if grant.ends_at - self.link.at > longest + TOLERANCE:
            yield "it lasts longer than any grant may."


class Grants:
    """The sealed events of all grants."""

    def __init__(self) -> None:
        rows = Event.objects.filter(kind__in=KINDS).order_by("subject", "seq")
        links = (Link(*values) for values in rows.values_list(*Link._fields))
        chains = {subject: [*each] for subject, each in groupby(links, attrgetter("subject"))}
        self._asked = {
            subject: [link for link in each if link.kind == ChangeKind.BREAK_GLASS_ASKED]
            for subject, each in chains.items()
        }
        self._given: dict[int, Given] = {}
        self._unreadable: list[Link] = []
        given = [link for each in chains.values() for link in each if link.kind == KINDS[0]]
        for link in sorted(given, key=attrgetter("id")):
            try:
                number = int(str(link.says["subject"]).removeprefix("grant:"))
                if link.subject != chain_of(f"grant:{number}") or number in self._given:
                    raise ValueError(number)
                self._given[number] = self._read(number, link, chains[link.subject])
            except (LedgerError, LookupError, TypeError, ValueError, ArithmeticError):
                self._unreadable.append(link)

    def faults(self) -> Iterator[str]:
        """Grants that are not what their events sealed, or that nobody may give."""
        for link in self._unreadable:
            yield f"event {link.id}: it gives no grant of its chain."
        left = dict(self._given)
        for row in Grant.objects.order_by("pk").iterator():
            given = left.pop(row.pk, None)
            if given is None or not _is_as_sealed(row, given):
                yield f"grant {row.pk} is not what its events sealed."
        for number in left:
            yield f"grant {number} is missing; its events are there."
        for number, given in self._given.items():
            yield from (f"grant {number}: {fault}" for fault in given.faults())

    def faults_of(self, history: History) -> Iterator[str]:
        """Votes that no grant gave."""
        row, links = history.rows.get("transaction"), history.links
        used: set[int] = set()
        for n, link in enumerate(links if row is not None else ()):
            if link.via != Surface.GRANT and not MARKS & link.says.keys():
                continue
            name, number = f"event {link.id} of transaction {link.subject}", link.says.get("grant")
            given = self._given.get(number) if type(number) is int else None
            is_approval = DECISIONS.get(link.kind) == Verdict.APPROVE
            if given is None or not is_approval or link.via != Surface.GRANT:
                yield f"{name}: no grant gave this signature."
                continue
            seen = as_of(row, history.former, links, revisions.number_in(links[:n]))
            has_evidence = bool(revisions.sealed_last(links[:n], seals.EVIDENCE))
            faults = _vote_faults(given, link, row, seen, has_evidence=has_evidence)
            yield from (f"{name}: {fault}" for fault in faults)
            owner, budgets = grants.owner_of(given.grant), grants.budgets_of(given.grant)
            limits = [] if given.grant.pk in used else [(owner, budgets)]
            used.add(given.grant.pk)
            if seen is not None and not are_taken(
                link.says.get("charges"), limits, facts_of(seen), link.at
            ):
                yield f"{name}: its charges are not those of its grant."

    def _read(self, number: int, link: Link, links: list[Link]) -> Given:
        grant = grants.as_given(number, link)
        asked = None
        if grant.is_break_glass:
            before = self._asked.get(chain_of(f"break_glass:{link.tenant}"), [])
            own = [each for each in before if _asks_for(each, link)]
            asked = own[-1] if own else None
            if asked is not None:
                before.remove(asked)  # one question has one answer
            grant.confirmed_by_name = link.principal_name
            grant.given_by_name = asked.principal_name if asked else ""
        grants.rule_of(grant)
        hash(tuple(grant.warnings))
        ended = next((each for each in links if each.kind == ChangeKind.GRANT_ENDED), None)
        if ended is not None:
            grant.ended_at = EPOCH + int(ended.says["at"]) * MICROSECOND
            grant.ended_by, grant.ended_by_name = ended.principal, ended.principal_name
        return Given(grant, link, asked, ended)


def _asks_for(asked: Link, given: Link) -> bool:
    """True if the first operator asked for exactly this before."""
    is_same = asked.says.get("request") == given.says.get("request")
    return is_same and asked.id < given.id and asked.principal == given.says.get("given_by")


def _is_as_sealed(row: Grant, given: Given) -> bool:
    names = [name for name in COLUMNS if _text(row, name) != _text(given.grant, name)]
    return not names and abs(row.given_at - given.link.at) < TOLERANCE


def _text(grant: Grant, name: str) -> Any:
    value = getattr(grant, name)
    if name.endswith("_name"):
        return value[:200]
    return str(value or "") if name == "transaction_id" else value


def _vote_faults(
    given: Given, vote: Link, row: Any, seen: Any | None, *, has_evidence: bool
) -> Iterator[str]:
    """``seen`` is the revision that was signed, where its content is known."""
    grant, says = given.grant, vote.says
    if not given.was_live(vote):
        yield f"grant {grant.pk} was not live then."
    if vote.principal not in dict(grant.signers):
        yield f"grant {grant.pk} is not of {vote.principal}."
    if vote.reason_digest != seals.digest_of_text(given.link.reason):
        yield f"grant {grant.pk} gives another reason."
    is_typed = says.get("typed", False) in (False, grant.typed)
    if not is_typed or says.get("break_glass", False) is not grant.is_break_glass:
        yield f"grant {grant.pk} does not sign as strongly."
    if says.get(grants.SIGNED, False) not in (False, ASSERTION in given.link.says):
        yield f"grant {grant.pk} was not signed with a passkey."
    about = (grant.tenant, grant.agent, grant.tool or row.tool)
    if about != (vote.tenant, row.proposed_by, row.tool) or has_evidence:
        yield f"grant {grant.pk} is about something else."
    if (
        seen
        and not row.content_erased_at
        and not grants.covers(grant, facts_of(seen), seen.warnings)
    ):
        yield f"grant {grant.pk} does not cover it."
