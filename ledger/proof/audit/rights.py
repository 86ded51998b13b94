"""The rights of people, proved: what accounts may do now, and who might decide then.

Both are a fold over the sealed changes of an account. The room that keeps accounts registers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from ledger.events import ChangeKind, chain_of
from ledger.proof.audit import histories
from ledger.proof.audit.histories import Part
from ledger.seals import Link
from ledger.sign_off.passkeys import ASSERTION
from ledger.states import EventKind
from ledger.transactions import DECISIONS

OF_DECIDERS = frozenset({EventKind.REVISED, EventKind.ASKED, EventKind.EXTENDED})
# An event has the time at which its database transaction began, not that of its commit.
TOLERANCE = timedelta(minutes=1)
FLAGS = {
    ChangeKind.USER_CREATED: ("is_active", True),
    ChangeKind.USER_ACTIVATED: ("is_active", True),
    ChangeKind.USER_DEACTIVATED: ("is_active", False),
    ChangeKind.STAFF_GRANTED: ("is_staff", True),
    ChangeKind.STAFF_REVOKED: ("is_staff", False),
    ChangeKind.SUPERUSER_GRANTED: ("is_superuser", True),
    ChangeKind.SUPERUSER_REVOKED: ("is_superuser", False),
}


class Account(NamedTuple):
    """The rights of one person, as the tables have them or as the events do."""

    id: UUID  # the subject of the account's events
    principal: str
    is_active: bool = False
    is_staff: bool = False
    is_superuser: bool = False
    roles: tuple[tuple[str, str], ...] = ()  # tenant and role, in order


@dataclass(frozen=True, slots=True)
class Registered:
    """Accounts of an upper room, and the roles there that decide on transactions and operate."""

    read: Callable[[], Iterable[Account]]
    role: str
    operator: str


registered: list[Registered] = []


def register_accounts(read: Callable[[], Iterable[Account]], role: str, operator: str) -> None:
    """Prove the rights of these accounts as well. Called in ``AppConfig.ready()``."""
    registered.append(Registered(read, role, operator))


def accounts() -> Iterator[Account]:
    for each in registered:
        yield from each.read()


def after(account: Account, link: Link) -> Account:
    """The rights after one more sealed change."""
    if link.kind in FLAGS:
        flag, value = FLAGS[ChangeKind(link.kind)]
        return Account(**account._asdict() | {flag: value})
    role = (link.tenant, str(link.says.get("role")))
    if link.kind == ChangeKind.ROLE_GRANTED:
        return account._replace(roles=tuple(sorted({*account.roles, role})))
    if link.kind == ChangeKind.ROLE_REVOKED:
        return account._replace(roles=tuple(sorted({*account.roles} - {role})))
    return account


@dataclass(slots=True)
class Rights:
    """The sealed changes of accounts, read once each."""

    _steps: dict[str, list[tuple[datetime, Account]]] = field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        """Accounts that may do more or less than their events say."""
        present = list(accounts())
        self._read(present)
        for account in present:
            steps = self._steps[account.principal]
            sealed = steps[-1][1] if steps else Account(account.id, account.principal)
            differing = [
                name for name in Account._fields if getattr(account, name) != getattr(sealed, name)
            ]
            if differing:
                yield (
                    f"account {account.id} ({account.principal}): {', '.join(differing)} is not "
                    "what its events sealed."
                )

    def vote_faults(self, links: Sequence[Link]) -> Iterator[str]:
        """Decisions of people who did not have the role then, or what only those do who decide;
        and rules that somebody signed who was no operator.
        """
        for vote in links:
            is_of_rules = vote.kind == ChangeKind.RULES_ACTIVATED and ASSERTION in vote.says
            if not (is_of_rules or vote.kind in DECISIONS or vote.kind in OF_DECIDERS):
                continue
            is_of_operators = is_of_rules or vote.says.get("break_glass") is True
            for role in {e.operator if is_of_operators else e.role for e in registered}:
                if vote.principal.startswith("user:") and not self._had(vote, role, is_of_rules):
                    yield (
                        f"event {vote.id} of {'rules' if is_of_rules else 'transaction'} "
                        f"{vote.subject}: {vote.principal} was no {role} of {vote.tenant} then."
                    )

    def _had(self, vote: Link, role: str, or_superuser: bool) -> bool:
        if vote.principal not in self._steps:
            chain = chain_of(vote.principal)
            self._read([Account(chain, vote.principal)])
        steps = self._steps[vote.principal]
        since = [
            (
                at,
                a.is_active
                and ((vote.tenant, role) in a.roles or (or_superuser and a.is_superuser)),
            )
            for at, a in steps
        ]
        ends = [*since[1:], (vote.at + TOLERANCE, False)]
        return any(
            had and at <= vote.at + TOLERANCE and end >= vote.at - TOLERANCE
            for (at, had), (end, _) in zip(since, ends, strict=False)
        )

    def _read(self, wanted: Sequence[Account]) -> None:
        by_id = {account.id: account for account in wanted}
        self._steps |= {account.principal: [] for account in wanted}
        subjects = sorted(by_id)
        for begin in range(0, len(subjects), histories.AT_ONCE):
            part = Part(only=tuple(subjects[begin : begin + histories.AT_ONCE]))
            for subject, links in groupby(histories.links_in(part), key=attrgetter("subject")):
                account = Account(subject, by_id[subject].principal)
                for link in links:
                    account = after(account, link)
                    self._steps[account.principal].append((link.at, account))
