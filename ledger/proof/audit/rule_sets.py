"""Rules and groups, proved: what was judged by which rules, and who was in which group then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ledger import seals
from ledger.events import ChangeKind, chain_of
from ledger.models import Group, RuleSet
from ledger.proof.audit import histories
from ledger.proof.audit.histories import History, Part
from ledger.seals import Link
from ledger.sign_off.rules import (
    Base,
    Facts,
    Judgement,
    Rules,
    RulesRefused,
    read,
    unreadable,
)
from ledger.states import State
from ledger.transactions import DECISIONS, as_of, charge_faults, terms_faults

# An event has the time at which its database transaction began, not that of its commit.
TOLERANCE = timedelta(minutes=1)
FOREVER = 2**63  # microseconds since 1970


@dataclass(slots=True)
class RuleSets:
    """The sets that each tenant activated, and since when, read once each."""

    _activations: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)
    _rules: dict[tuple[str, int], Rules | None] = field(default_factory=dict)
    _written: dict[tuple[str, int], Any] = field(default_factory=dict)
    _members: dict[tuple[str, str], list[Link]] = field(default_factory=dict)

    def faults_of(self, history: History) -> Iterator[str]:
        """Faults of the terms of one transaction, and of the votes in groups."""
        row, links = history.rows.get("transaction"), history.links
        if row is None or not links:
            return
        for link in links:
            yield from self._faults_of(link, is_first=link is links[0])
        yield from terms_faults(row, self._judge)
        proposed = as_of(row, history.former, links, 1)
        yield from charge_faults(row, proposed, links, self._judge)

    def row_faults(self) -> Iterator[str]:
        """Sets and members of groups in the tables that no event made so."""
        for row in RuleSet.objects.exclude(activated_at=None):
            self._read(row.tenant)
            if self._written.get((row.tenant, row.number)) != row.rules:
                yield f"rule set {row.number} of {row.tenant} is not what was activated."
        for group in Group.objects.order_by("pk"):
            added = Counter(
                (link.says["person"], link.says["starts_at"], link.says["ends_at"])
                for link in self._links_of_group(group.tenant, group.name)
                if link.kind == ChangeKind.GROUP_MEMBER_ADDED
            )
            rows = Counter(
                (each.person, seals.as_text(each.starts_at), seals.as_text(each.ends_at))
                for each in group.members.all()
            )
            if rows - added:
                yield f"group {group.name} of {group.tenant} has a member whom nobody added."

    def _faults_of(self, link: Link, *, is_first: bool) -> Iterator[str]:
        name = f"event {link.id} of transaction {link.subject}"
        sets = link.says.get("sets", {})
        text = sets.get("terms") if isinstance(sets, dict) else None
        if text is not None or (is_first and link.to_state == State.PREPARED):
            number = json.loads(text)["set"] if text is not None else 0
            if not self._was_active(link.tenant, number, link.at):
                yield f"{name}: rules {number} of {link.tenant} were not active then."
        for group in link.says.get("groups", ()):
            if link.kind in DECISIONS and not self._was_member(link, group):
                yield f"{name}: {link.principal} was not in {group} then."

    def _judge(self, tenant: str, number: int, facts: Facts, base: Base) -> Judgement:
        self._read(tenant)
        rules = self._rules.get((tenant, number))
        return unreadable(number, base) if rules is None else rules.judge(facts, base)

    def _was_active(self, tenant: str, number: Any, at: datetime) -> bool:
        self._read(tenant)
        since = [(datetime.min.replace(tzinfo=at.tzinfo), 0), *self._activations[tenant]]
        ends = [*(begin for begin, _ in since[1:]), at + TOLERANCE]
        return any(
            each == number and begin <= at + TOLERANCE and end >= at - TOLERANCE
            for (begin, each), end in zip(since, ends, strict=True)
        )

    def _was_member(self, vote: Link, group: str) -> bool:
        """True if sealed changes of the group have the voter in it, give or take a minute."""
        times: list[list[int]] = []
        for link in self._links_of_group(vote.tenant, group):
            if link.says.get("person") != vote.principal:
                continue
            at = _microseconds(link.at)
            if link.kind == ChangeKind.GROUP_MEMBER_ADDED:
                ends_at = int(link.says["ends_at"] or FOREVER)
                times.append(
                    [max(int(link.says["starts_at"]), at), ends_at if _is_by_two(link) else 0]
                )
            elif link.kind == ChangeKind.GROUP_MEMBER_REMOVED and times:
                times[-1][1] = min(times[-1][1], at)
        first, last = _microseconds(vote.at - TOLERANCE), _microseconds(vote.at + TOLERANCE)
        return any(begin <= last and end >= first for begin, end in times)

    def _links_of_group(self, tenant: str, name: str) -> list[Link]:
        if (tenant, name) not in self._members:
            part = Part(only=(chain_of(f"group:{tenant}/{name}"),))
            self._members[tenant, name] = [*histories.links_in(part)]
        return self._members[tenant, name]

    def _read(self, tenant: str) -> None:
        if tenant in self._activations:
            return
        self._activations[tenant] = []
        for link in histories.links_in(Part(only=(chain_of(f"rules:{tenant}"),))):
            if link.kind == ChangeKind.RULES_ACTIVATED:
                number = int(link.says["number"])
                self._activations[tenant].append((link.at, number))
                self._written[tenant, number] = link.says.get("rules")
                self._rules[tenant, number] = _rules_in(link, number)


def _microseconds(at: datetime) -> int:
    return int(seals.as_text(at))


def _is_by_two(added: Link) -> bool:
    """True if no operator made somebody a member alone: two did, or the server, or the company."""
    asked_by = added.says.get("asked_by")
    return added.principal.startswith("system:") or asked_by not in (None, added.principal)


def _rules_in(link: Link, number: int) -> Rules | None:
    try:
        return read(number, link.says.get("rules"))
    except RulesRefused:
        return None
