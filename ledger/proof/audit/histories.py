"""Every history with the rows that it is about, side by side, in bounded memory.

Events, rows and decisions are read in the order of their subjects, as PostgreSQL's indexes have
them, and merged: a row without events and events without a row come out as such.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import count, groupby, starmap
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, models
from django.db.models import Exists, Func, OuterRef, Q
from django.db.models.functions import Cast
from django.db.transaction import atomic
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

from ledger import seals
from ledger.events import SealedContent
from ledger.models import Charge, Decision, Event, Evidence, Permit, Revision, Transaction
from ledger.seals import Link
from ledger.transactions import MOVES, Former, Map

CHUNK = 2_000  # rows of one fetch
AT_ONCE = 1_000  # subjects that are looked up by one statement


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of thing that has chains: what it is called, its map, and its table."""

    name: str
    moves: Map
    model: type[models.Model]
    columns: type[Any]  # a NamedTuple of the columns that are read
    # Of upper rooms: the content as their events seal it, and as their tables have it, by subject.
    content: SealedContent | None = None
    contents: Callable[[Part], Iterator[tuple[UUID, dict[str, str]]]] | None = None


class Vote(NamedTuple):
    """One row of decisions."""

    transaction_id: UUID
    id: int
    principal: str
    principal_name: str
    verdict: str
    intent_digest: str
    via: str
    reason: str
    at: Any
    kept_by: str = ""
    policy: Any = None
    is_withdrawn: bool = False
    grant_id: int | None = None


class PermitRow(NamedTuple):
    """One row of permits, as far as events seal it."""

    transaction_id: UUID
    jti: UUID
    redeemed_at: datetime | None
    redeemed_by: str


class ChargeRow(NamedTuple):
    """One row of charges, with the budget that it is of."""

    transaction_id: UUID
    tenant: str
    owner: str
    measure: str
    period: str
    amount: Decimal
    released_at: datetime | None


class EvidenceRow(NamedTuple):
    """One row of evidence, with the SHA-256 of its content."""

    transaction_id: UUID
    revision: int
    number: int
    sha256: str


class RevisionRow(NamedTuple):
    """One row of revisions: what a transaction was before it was changed."""

    transaction_id: UUID
    number: int
    content: Any


_TRANSACTION = (
    "id",
    "state",
    *(name for name in seals.FIXED if name != "id"),
    *seals.OUTCOME,
    seals.KEEPER_MAY_SIGN,
    seals.REQUIRED_POLICY,
    seals.EVIDENCE,
    seals.REPLACES,
    *("open_seats", "revision", "asked_at"),
)
Row = NamedTuple("Row", [(name, Any) for name in _TRANSACTION])  # type: ignore[misc]


class Standing(NamedTuple):
    """Facts that the log knows of a row of an upper room."""

    id: UUID
    state: str
    content_erased_at: datetime | None


families: dict[str, Family] = {"transaction": Family("transaction", MOVES, Transaction, Row)}


def register_family(family: Family) -> None:
    """Prove the chains of an upper room's rows as well. Called in ``AppConfig.ready()``."""
    families[family.name] = family


@dataclass(slots=True)
class History:
    """All there is about one subject."""

    subject: UUID
    links: list[Link] = field(default_factory=list)
    votes: list[Vote] = field(default_factory=list)
    permits: list[PermitRow] = field(default_factory=list)
    evidence: list[EvidenceRow] = field(default_factory=list)
    revisions: list[RevisionRow] = field(default_factory=list)
    charges: list[ChargeRow] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)  # by the name of the family
    contents: dict[str, str] = field(default_factory=dict)  # digests of what the tables hold

    @property
    def former(self) -> Former:
        return {each.number: each.content for each in self.revisions}


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the subjects that is read. Without limits all of them are."""

    only: tuple[UUID, ...] | None = None
    after: UUID | None = None
    upto: UUID | None = None

    def of(self, column: str) -> Q:
        wanted = Q()
        if self.only is not None:
            wanted &= Q(**{f"{column}__in": self.only})
        if self.after is not None:
            wanted &= Q(**{f"{column}__gt": self.after})
        if self.upto is not None:
            wanted &= Q(**{f"{column}__lte": self.upto})
        return wanted


EVERYTHING = Part()


@contextmanager
def snapshot() -> Iterator[None]:
    """Read the whole ledger as of one instant, unaffected by concurrent writes.

    Inside a database transaction of the caller, its isolation level applies instead.
    """
    if connection.in_atomic_block:
        yield
        return
    with atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL statement_timeout = 0")
        yield


def newer_than(event_id: int) -> Iterator[Part]:
    """The subjects with an event that is newer than this one, so many at a time that PostgreSQL
    looks each of them up: asked for all at once, it may rather go through the whole ledger.
    """
    newer = Event.objects.filter(pk__gt=event_id).order_by("subject").distinct()
    subjects = [subject for (subject,) in stream(newer, ["subject"])]
    for begin in range(0, len(subjects), AT_ONCE):
        yield Part(only=tuple(subjects[begin : begin + AT_ONCE]))


def events_in(part: Part) -> models.QuerySet[Event]:
    return Event.objects.filter(part.of("subject"))


def read(part: Part = EVERYTHING) -> Iterator[History]:
    """Histories in the order of their subjects."""
    chains = groupby(links_in(part), key=attrgetter("subject.int"))
    sources: dict[str, _Source] = {"events": _Source((key, [*links]) for key, links in chains)}
    of_each = {
        "votes": _votes(part),
        "permits": _permits(part),
        "evidence": _evidence(part),
        "revisions": _revisions(part),
        "charges": _charges(part),
    }
    for name, of_transactions in of_each.items():
        groups = groupby(of_transactions, key=attrgetter("transaction_id.int"))
        sources[name] = _Source((key, [*rows]) for key, rows in groups)
    for name, family in families.items():
        sources[name] = _Source((row.id.int, row) for row in _rows(family, part))
    with_contents = [family.contents(part) for family in families.values() if family.contents]
    by_subject = heapq.merge(*with_contents, key=itemgetter(0))
    sources["contents"] = _Source((subject.int, digests) for subject, digests in by_subject)
    while keys := [source.key for source in sources.values() if source.key is not None]:
        subject = min(keys)
        taken = {name: s.take() for name, s in sources.items() if s.key == subject}
        history = History(UUID(int=subject), taken.pop("events", []))
        rest = (taken.pop(name, []) for name in of_each)
        history.votes, history.permits, history.evidence, history.revisions, *others = rest
        (history.charges,) = others
        history.contents = taken.pop("contents", {})
        history.rows = taken
        yield history


def without_events() -> Iterator[tuple[str, UUID]]:
    """Rows that no event is about, wherever they are."""
    for name, family in families.items():
        events = Event.objects.filter(subject=OuterRef("pk"))
        rows = family.model._default_manager.filter(~Exists(events)).order_by("pk")
        yield from ((name, pk) for pk in rows.values_list("pk", flat=True)[:CHUNK])


class _Source:
    """A stream of (key, value), in the order of the keys, of which the next one is known.

    Keys are the numbers of UUIDs, which compare many times as fast.
    """

    def __init__(self, pairs: Iterable[tuple[int, Any]]) -> None:
        self._pairs = iter(pairs)
        self.key: int | None = None
        self._value: Any = None
        self._advance()

    def _advance(self) -> None:
        self.key, self._value = next(self._pairs, (None, None))

    def take(self) -> Any:
        value = self._value
        self._advance()
        return value


def links_in(part: Part) -> Iterator[Link]:
    rows = events_in(part).order_by("subject", "seq", "pk")
    return starmap(Link, stream(rows, Link._fields))


def _votes(part: Part) -> Iterator[Vote]:
    votes = Decision.with_withdrawn.filter(part.of("transaction_id"))
    rows = votes.order_by("transaction_id", "pk")
    return starmap(Vote, stream(rows, Vote._fields))


def _permits(part: Part) -> Iterator[PermitRow]:
    rows = Permit.objects.filter(part.of("transaction_id")).order_by("transaction_id", "pk")
    return starmap(PermitRow, stream(rows, PermitRow._fields))


def _charges(part: Part) -> Iterator[ChargeRow]:
    rows = Charge.objects.filter(part.of("transaction_id")).order_by("transaction_id", "budget_id")
    of_budget = [f"budget__{name}" for name in ("tenant", "owner", "measure", "period")]
    columns = ["transaction_id", *of_budget, "amount", "released_at"]
    return starmap(ChargeRow, stream(rows, columns))


def _evidence(part: Part) -> Iterator[EvidenceRow]:
    """PostgreSQL hashes the contents, so that they stay where they are."""
    of_part = Evidence.objects.filter(part.of("transaction_id"))
    rows = of_part.order_by("transaction_id", "revision", "number")
    digest = Func("content", template="encode(sha256(%(expressions)s), 'hex')")
    hashed = rows.annotate(sha256=Cast(digest, models.TextField()))
    return starmap(EvidenceRow, stream(hashed, EvidenceRow._fields))


def _revisions(part: Part) -> Iterator[RevisionRow]:
    rows = Revision.objects.filter(part.of("transaction_id")).order_by("transaction_id", "number")
    return starmap(RevisionRow, stream(rows, RevisionRow._fields))


def _rows(family: Family, part: Part) -> Iterator[Any]:
    rows = family.model._default_manager.filter(part.of("pk")).order_by("pk")
    return starmap(family.columns, stream(rows, family.columns._fields))


def stream(rows: models.QuerySet[Any], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The columns, chunk by chunk, in PostgreSQL's binary format: half the work of Django's way."""
    sql, params = rows.values_list(*columns).query.sql_with_params()
    connection.ensure_connection()
    name = f"histories_{next(_cursor_numbers)}"
    outlives = connection.get_autocommit()
    with connection.connection.cursor(name, binary=True, withhold=outlives) as cursor:
        cursor.adapters.register_loader("jsonb", _Json)
        cursor.execute(sql, params)
        while chunk := cursor.fetchmany(CHUNK):
            yield from chunk


class _Json(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        return json.loads(str(data[1:], "utf-8"))  # after the number of the format's version


_cursor_numbers = count()
