"""Summaries for people of what an archive proves: who held what, which rules, which decisions.

All of it is made from the records and events that are in the archive, and from nothing else:
``examples/verify.py`` makes it again.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings

from ledger import seals
from ledger.events import ChangeKind
from ledger.proof.archive.contents import Period
from ledger.proof.audit.decision_records import Record, in_words

Row = dict[str, str]
DECISION = (
    *("type", "id", "tool", "risk", "amount", "currency", "proposed_by"),
    *("state", "decided_by", "decided_at", "link"),
)
FOR_THE_AUDITOR = ("looked_at_by", "looked_at_on", "result", "remarks")
HOLDING = (
    *("what", "name", "principal", "person", "since", "until"),
    *("given_by", "asked_by", "given_in_event", "ended_by", "ended_in_event"),
)
# What begins and what ends an account, or a right beyond roles.
BEGINS = {
    ChangeKind.USER_CREATED: "account",
    ChangeKind.USER_ACTIVATED: "account",
    ChangeKind.STAFF_GRANTED: "staff",
    ChangeKind.SUPERUSER_GRANTED: "superuser",
    ChangeKind.ROLE_GRANTED: "role",
    ChangeKind.GROUP_MEMBER_ADDED: "group",
}
ENDS = {
    ChangeKind.USER_DEACTIVATED: "account",
    ChangeKind.STAFF_REVOKED: "staff",
    ChangeKind.SUPERUSER_REVOKED: "superuser",
    ChangeKind.ROLE_REVOKED: "role",
    ChangeKind.GROUP_MEMBER_REMOVED: "group",
}


def decision_of(record: Record, kinds: frozenset[str]) -> Row:
    """One decision in a line of a table. Only transactions have votes: else events count."""
    kind, subject = record["subject"]["type"], record["subject"]["id"]
    prepared, decided = record.get("prepared", {}), record["summary"]["decisions"]
    if not prepared:
        answers = (event for event in record["events"] if event["kind"] in kinds)
        decided = [{**event, "at": _time(event["at"])} for event in answers]
    values = {
        "type": kind,
        "id": subject,
        "tool": prepared.get("tool", record.get("task", {}).get("skill", "")),
        "risk": prepared.get("risk_level", ""),
        **{name: prepared.get(name, "") for name in ("amount", "currency", "proposed_by")},
        "state": record["summary"]["state"],
        "decided_by": " ".join(f"{each['kind']}:{each['principal']}" for each in decided),
        "decided_at": decided[-1]["at"] if decided else "",
        "link": f"{settings.PUBLIC_URL}/{kind}s/{subject}/",
    }
    return {name: _cell(value) for name, value in values.items()}


class Sample:
    """Those of the decisions that chance, which is the root of a checkpoint, has people look at."""

    def __init__(self, size: int, root: str) -> None:
        self._size, self._root = size, root
        self._chosen: list[tuple[int, str, Row]] = []

    def offer(self, row: Row) -> None:
        digest = hashlib.sha256(f"{self._root}{row['id']}".encode()).hexdigest()
        heapq.heappush(self._chosen, (-int(digest, 16), row["id"], row))
        if len(self._chosen) > self._size:
            heapq.heappop(self._chosen)

    def rows(self) -> list[Row]:
        """In the order of the digests, with empty columns for whoever looks at them."""
        empty = dict.fromkeys(FOR_THE_AUDITOR, "")
        return [{**row, **empty} for _, _, row in sorted(self._chosen, reverse=True)]


def rules_in_force(events: Iterable[Record], period: Period) -> list[Record]:
    """Each set of rules that counted in the period: since when, and who confirmed it."""
    sets: list[Record] = []
    for event in events:
        if event["kind"] != ChangeKind.RULES_ACTIVATED:
            continue
        says, at = json.loads(event["details"]), _time(event["at"])
        if sets:
            sets[-1]["until"] = at
        sets.append(
            {
                "number": says["number"],
                "since": at,
                "until": "",
                "asked_by": says.get("asked_by", ""),
                "asked_by_name": says.get("asked_by_name", ""),
                "confirmed_by": event["principal"],
                "confirmed_by_name": event["principal_name"],
                "loosens": says.get("loosens", []),
                "rules": says["rules"],
                "event": event["id"],
            }
        )
    return [each for each in sets if _counts(each, period)]


def holdings(events: Iterable[Record], period: Period) -> list[Row]:
    """Accounts, roles, rights and places in groups: whose they were, from when to when."""
    every: list[Row] = []
    open_: dict[tuple[str, str, str], Row] = {}
    for event in events:
        what = BEGINS.get(event["kind"]) or ENDS.get(event["kind"])
        if what is None:
            continue
        says = json.loads(event["details"])
        person = says["person"] if what == "group" else says["subject"]
        key = (what, str(says.get("role", says["name"] if what == "group" else "")), person)
        if event["kind"] in ENDS and (row := open_.pop(key, None)):
            row["until"] = min(filter(None, [row["until"], _time(event["at"])]))
            row["ended_by"], row["ended_in_event"] = event["principal"], str(event["id"])
        elif event["kind"] in BEGINS and (key not in open_ or what == "group"):
            open_[key] = _begun(key, event, says)
            every.append(open_[key])
    return [{k: _cell(v) for k, v in row.items()} for row in every if _counts(row, period)]


def _begun(key: tuple[str, str, str], event: Record, says: Record) -> Row:
    what, name, principal = key
    since = max(int(says.get("starts_at") or 0), int(event["at"]))
    values = {
        "what": what,
        "name": name,
        "principal": principal,
        "person": says["person_name"] if what == "group" else says["name"],
        "since": _time(str(since)),
        "until": _time(says["ends_at"]) if says.get("ends_at") else "",
        "given_by": event["principal"],
        "asked_by": says.get("asked_by", ""),
        "given_in_event": str(event["id"]),
    }
    return dict.fromkeys(HOLDING, "") | values


def _counts(row: Record, period: Period) -> bool:
    is_over = row["until"] and row["until"] <= in_words(period.begins_at)
    return row["since"] < in_words(period.ends_at) and not is_over


def _time(microseconds: str) -> str:
    return in_words(seals.EPOCH + timedelta(microseconds=int(microseconds)))


def _cell(value: Any) -> str:
    """Text that no spreadsheet takes for a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def lines_of(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    yield line_of(columns)
    for row in rows:
        yield line_of([row[name] for name in columns])


def line_of(cells: Iterable[str]) -> str:
    """One line of CSV (RFC 4180)."""
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\r\n"
