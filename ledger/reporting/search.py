"""Finding transactions by whole values, words and dates, at the same cost in a ledger of any size.

What has ended is read from ``SearchTerm``, newest first; what is open is little, and is looked
through. A page costs a bounded number of index entries: where they do not suffice to fill it, it
tells how far back it has looked, and the next one goes on there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db import connection, models
from django.db.models import Q, QuerySet
from django.db.models.functions import Cast, Right

from ledger.foundation.characters import without_nul
from ledger.foundation.postgres import keyset_page
from ledger.models import SearchTerm, Transaction, TransactionQuerySet
from ledger.states import FINAL, OPEN

LONGEST_TEXT = 1_000  # characters of a query; the others are ignored
MOST_WORDS = 8  # of a query; the others are ignored
MOST_FOUND = 1_000  # transactions with one whole value
MOST_BEGINNINGS = 20  # words that begin as one of the query does
EXAMINED = 2_000  # entries of the rarest word, for one page
# Ids have the clock of the process that made them, ``created_at`` has the database's.
CLOCKS_DIFFER = timedelta(hours=1)
FIRST_ID, LAST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)
LAST_CHARACTER = "\U0010ffff"
# With or without thousands and a sign of the currency before it.
AMOUNT = re.compile(r"[^\w.,\s]{0,3}[0-9]{1,3}(?:,?[0-9]{3}){0,6}(?:\.[0-9]{1,3})?")
SHORT_ID = "[0-9a-f]{8}"
EVERYTHING = Q()
STILL_OPEN = Q(state__in=sorted(OPEN))


@dataclass(frozen=True, slots=True)
class Hits:
    """A page of results, newest first.

    ``next`` is where the next page begins, ``None`` at the end. With ``is_partial`` the page is not
    full although there is a next one. ``cut`` has the words of the query of which only whole words
    were searched, because too many words begin like them.
    """

    rows: list[Transaction]
    next: UUID | None = None
    is_partial: bool = False
    cut: tuple[str, ...] = ()

    @property
    def searched_back_to(self) -> datetime | None:
        """Time at which the transactions at ``next`` were proposed."""
        if self.next is None:
            return None
        return datetime.fromtimestamp((self.next.int >> 80) / 1000, UTC)


# --- dates ----------------------------------------------------------------------------------------


def _created_between(
    rows: TransactionQuerySet, since: datetime | None, until: datetime | None
) -> TransactionQuerySet:
    """Rows created at ``since`` or later, and before ``until``.

    Ids begin with the time, so a bound on them saves reading all that is newer.
    """
    first, last = _ids_between(since, until)
    if since is not None:
        rows = rows.filter(created_at__gte=since, pk__gte=first)
    if until is not None:
        rows = rows.filter(created_at__lt=until, pk__lt=last)
    return rows


def _ids_between(since: datetime | None, until: datetime | None) -> tuple[UUID, UUID]:
    first = FIRST_ID if since is None else _first_id_at(since, -CLOCKS_DIFFER)
    return first, LAST_ID if until is None else _first_id_at(until, CLOCKS_DIFFER)


def _first_id_at(at: datetime, shift: timedelta) -> UUID:
    """The smallest UUID of version 7 with this time and the shift; any day may be asked for."""
    seconds = at.timestamp() + shift.total_seconds()
    milliseconds = min(max(0, int(seconds * 1000)), (1 << 48) - 1)
    return UUID(int=milliseconds << 80)


# --- what is asked for ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """Terms that a search asks for, in which tenants; what is empty is not asked for."""

    tenants: frozenset[str]
    text: str = ""
    tool: str = ""
    risk: str = ""
    state: str = ""
    proposed_by: str = ""
    since: datetime | None = None
    until: datetime | None = None
    also: Q = EVERYTHING

    @property
    def by_terms(self) -> bool:
        """True if it takes the terms to find it; else the indexes of the table suffice."""
        return bool(self.pieces or self.terms)

    @property
    def pieces(self) -> list[str]:
        """The text as it was written, without spaces and the punctuation around words."""
        text = unicodedata.normalize("NFC", without_nul(self.text[:LONGEST_TEXT]))
        pieces = (_without_punctuation_around(piece) for piece in text.split()[:MOST_WORDS])
        return [piece for piece in pieces if piece]

    @property
    def terms(self) -> list[str]:
        pairs = (("tool", self.tool), ("risk", self.risk))
        return [f":{name}:{value}" for name, value in pairs if value]


def _without_punctuation_around(piece: str) -> str:
    """A regular expression would take time quadratic in the punctuation."""
    within = [place for place, character in enumerate(piece) if character.isalnum()]
    return piece[within[0] : within[-1] + 1] if within else ""


def find(wanted: Wanted, limit: int, before: UUID | None = None, only: Sequence[str] = ()) -> Hits:
    """At most ``limit`` transactions in which every word of the text begins a word.

    A text that is a whole id, receipt or trace id finds what has it, and no more. Of transactions
    that are open the words may be anywhere. ``only`` are the columns that are read, all if empty.
    """
    rows = filtered(wanted).only(*only) if only else filtered(wanted)
    if not wanted.by_terms:
        page = keyset_page(rows, limit, before=None if before is None else (before,))
        return Hits(page.rows, page.cursor)
    if whole := whole_value(Transaction.objects.for_tenants(wanted.tenants), wanted):
        page = keyset_page(
            rows.filter(pk__in=whole), limit, before=None if before is None else (before,)
        )
        return Hits(page.rows, page.cursor)
    return _Search(rows, wanted, limit).run(before)


def filtered(wanted: Wanted) -> TransactionQuerySet:
    """All that the search asks for but its words."""
    agent = without_nul(wanted.proposed_by)
    columns = {"tool": wanted.tool, "risk_level": wanted.risk, "state": wanted.state}
    set_ones = {name: value for name, value in {**columns, "proposed_by": agent}.items() if value}
    rows = Transaction.objects.for_tenants(wanted.tenants).filter(wanted.also, **set_ones)
    return _created_between(rows, wanted.since, wanted.until)


def contains(piece: str) -> Q:
    """Rows with this text anywhere, or this amount; for few rows, because no index helps."""
    plain = unaccented(piece)
    condition = (
        Q(action_summary__unaccented__icontains=plain)
        | Q(proposed_by_name__unaccented__icontains=plain)
        | Q(operation_key__icontains=piece)
        | Q(tool__icontains=piece)
        | Q(receipt=piece)
        | Q(trace_id=piece)
    )
    if AMOUNT.fullmatch(piece):
        condition |= _costs(piece)
    if re.fullmatch(r"[0-9a-fA-F-]{6,36}", piece):
        condition |= Q(id__icontains=piece)
    return condition


def _costs(piece: str) -> Q:
    """``1382`` costs what is from 1382 to below 1383; ``1,339.77`` that amount."""
    number = Decimal(re.sub(r"[^0-9.]", "", piece))
    return Q(amount=number) if "." in piece else Q(amount__gte=number, amount__lt=number + 1)


def unaccented(text: str) -> str:
    """As ``ledger_unaccented`` of the database."""
    return re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", text))


# --- whole values ---------------------------------------------------------------------------------


def whole_value(rows: TransactionQuerySet, wanted: Wanted) -> set[UUID]:
    """The transactions of which the text is a whole value, or how the id begins or ends."""
    if len(wanted.pieces) != 1:
        return set()
    (value,) = wanted.pieces
    ids: set[UUID] = set()
    for condition in _whole_value(value):  # one query for each index: their OR would use none
        ids.update(rows.filter(condition).values_list("pk", flat=True)[:MOST_FOUND])
    if re.fullmatch(SHORT_ID, value.lower()):
        ids.update(with_short_id(rows, wanted.tenants, value.lower()))
    return ids


def _whole_value(value: str) -> Iterator[Q]:
    digits = value.replace("-", "").lower()
    if re.fullmatch(r"[0-9a-f]{9,32}", digits):  # an id, or how it begins
        yield Q(pk__gte=UUID(digits.ljust(32, "0")), pk__lte=UUID(digits.ljust(32, "f")))
    if re.fullmatch(r"[0-9a-f]{32}", digits):
        yield Q(trace_id=digits)
    yield Q(receipt=value)


def with_short_id(
    rows: QuerySet[Transaction], tenants: frozenset[str], digits: str
) -> Iterator[UUID]:
    """Those of the rows whose id ends with these eight digits."""
    ended = SearchTerm.objects.filter(tenant__in=tenants, term=f":id:{digits}")
    ids = ended.values_list("transaction_id", flat=True)[:MOST_FOUND]
    yield from rows.filter(pk__in=list(ids)).values_list("pk", flat=True)
    tail = Right(Cast("pk", models.TextField()), 8)
    still_open = rows.filter(STILL_OPEN).alias(tail=tail)
    yield from still_open.filter(tail=digits).values_list("pk", flat=True)


# --- words ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """Values of which a transaction has to have one: terms that begin alike, or a state."""

    values: list[str]
    entries: str  # SQL: where the transactions that have a value are listed
    is_state: bool = False


class _Search:
    """One page of one search: entries of the rarest group, newest first, until it is full."""

    def __init__(self, rows: TransactionQuerySet, wanted: Wanted, limit: int) -> None:
        self._wanted, self._limit, self._tenants = wanted, limit, sorted(wanted.tenants)
        # Words as they stand beside each other have to stand in the row too.
        together = [contains(piece) for piece in wanted.pieces if not piece.isalnum()]
        self._rows = rows.filter(*together)
        self._oldest, self._newest = _ids_between(wanted.since, wanted.until)

    def run(self, before: UUID | None) -> Hits:
        groups, cut = self._groups()
        reached = min(before or LAST_ID, self._newest)
        hits = self._open(reached)
        is_end = not groups or not groups[0].values or self._wanted.state not in {"", *FINAL}
        examined, size = 0, self._limit + 1
        while not is_end and self._complete(hits, reached) <= self._limit and examined < EXAMINED:
            ids, reached, is_end = self._next(groups, reached, size)
            hits |= self._read(self._rows.filter(pk__in=ids))
            examined += size
            size = min(size * 4, max(EXAMINED - examined, 1))
        return self._page(hits, FIRST_ID if is_end else reached, tuple(cut))

    def _page(self, hits: dict[UUID, Transaction], reached: UUID, cut: tuple[str, ...]) -> Hits:
        keys = sorted((pk for pk in hits if pk >= reached), reverse=True)
        rows = [hits[pk] for pk in keys[: self._limit]]
        if len(keys) > self._limit:
            return Hits(rows, rows[-1].pk, cut=cut)
        is_end = reached == FIRST_ID
        return Hits(rows, None if is_end else reached, not is_end, cut)

    def _complete(self, hits: dict[UUID, Transaction], reached: UUID) -> int:
        """Number of hits that no unread entry lies between."""
        return sum(pk >= reached for pk in hits)

    def _read(self, rows: TransactionQuerySet) -> dict[UUID, Transaction]:
        return {row.pk: row for row in rows.order_by("-pk")[: self._limit + 1]}

    def _open(self, before: UUID) -> dict[UUID, Transaction]:
        """The newest of those that have not ended, and therefore have no terms yet."""
        words = [contains(piece) for piece in self._wanted.pieces]
        rows = self._rows.filter(STILL_OPEN, *words, pk__lt=before)
        # Their texts have the order of the ids, but no index: in the order of one, PostgreSQL may
        # read the history until enough rows are open, which may be all of it.
        newest_first = Cast("pk", models.TextField()).desc()
        return {row.pk: row for row in rows.order_by(newest_first)[: self._limit + 1]}

    def _groups(self) -> tuple[list[_Group], list[str]]:
        """The state, the filters, and for each word the terms that begin like it."""
        groups, cut = [_Group([term], _OF_TERM) for term in self._wanted.terms], []
        if self._wanted.state in FINAL:
            state = self._wanted.state
            groups.append(_Group([state], _OF_STATE.format(state=state), is_state=True))
        for word in _words(self._wanted.pieces):
            terms = self._beginning_with(word)
            if len(terms) > MOST_BEGINNINGS:
                cut.append(word)
                terms = [word]
            groups.append(_Group(terms, _OF_TERM))
        return self._rarest_first(groups), cut

    def _rarest_first(self, groups: list[_Group]) -> list[_Group]:
        if len(groups) < 2:
            return groups
        for most in (self._limit + 1, EXAMINED):
            counted = [(self._frequency(group, most), group) for group in groups]
            counted.sort(key=itemgetter(0))
            if counted[0][0] < most:
                break
        return [group for _, group in counted]

    def _beginning_with(self, word: str) -> list[str]:
        most, upto = (MOST_BEGINNINGS + 1) * len(self._tenants), word + LAST_CHARACTER
        rows = _run(_BEGINNINGS, word, upto, self._tenants, upto, most)
        return sorted({term for (term,) in rows})

    def _frequency(self, group: _Group, most: int) -> int:
        """Number of entries the group has, counted no further than ``most``."""
        sql = _FREQUENCY.format(entries=group.entries)
        ((number,),) = _run(sql, self._tenants, group.values, FIRST_ID, LAST_ID, most, most)
        return int(number)

    def _next(
        self, groups: list[_Group], before: UUID, number: int
    ) -> tuple[list[UUID], UUID, bool]:
        """Of the next entries of the rarest group the ids in all groups; the last; the end."""
        rarest, *rest = groups
        others = [group.values for group in rest if not group.is_state]  # rows have the state
        is_in_all = " AND ".join([_IS_IN] * len(others)) or "true"
        sql = _ENTRIES.format(is_in_all=is_in_all, entries=rarest.entries)
        bounds = (self._oldest, before, number, number)
        entries = _run(sql, *others, self._tenants, rarest.values, *bounds)
        ids = [pk for pk, is_hit in entries if is_hit]
        return ids, entries[-1][0] if entries else before, len(entries) < number


def _words(pieces: list[str]) -> list[str]:
    ((words,),) = _run("SELECT ledger_words(%s)", " ".join(pieces))
    return list(words or [])[:MOST_WORDS]


def _run(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


# The distinct terms of a range, each found by one descent of the index.
_BEGINNINGS = """
WITH RECURSIVE step (tenant, term) AS (
    SELECT reader.tenant, (
        SELECT term FROM ledger_searchterm s
        WHERE s.tenant = reader.tenant AND s.term >= %s AND s.term < %s ORDER BY term LIMIT 1)
    FROM unnest(%s::text[]) reader (tenant)
    UNION ALL
    SELECT step.tenant, (
        SELECT term FROM ledger_searchterm s
        WHERE s.tenant = step.tenant AND s.term > step.term AND s.term < %s ORDER BY term LIMIT 1)
    FROM step WHERE step.term IS NOT NULL
)
SELECT term FROM step WHERE term IS NOT NULL LIMIT %s
"""
# The newest entries with a value, in the order of an index.
_OF_TERM = """
SELECT s.tenant, s.transaction_id FROM ledger_searchterm s
WHERE s.tenant = reader.tenant AND s.term = wanted.value
    AND s.transaction_id >= %s AND s.transaction_id < %s
ORDER BY s.tenant DESC, s.term DESC, s.transaction_id DESC LIMIT %s
"""
# With the state itself, not with ``wanted.value``, so that PostgreSQL knows how rare it is.
_OF_STATE = """
SELECT s.tenant, s.id AS transaction_id FROM ledger_transaction s
WHERE s.tenant = reader.tenant AND s.state = '{state}' AND s.id >= %s AND s.id < %s
ORDER BY s.id DESC LIMIT %s
"""
_STREAMS = """
unnest(%s::text[]) reader (tenant) CROSS JOIN unnest(%s::text[]) wanted (value)
CROSS JOIN LATERAL ({entries}) newest
"""
_FREQUENCY = f"SELECT count(*) FROM (SELECT FROM {_STREAMS} LIMIT %s) counted"
# No EXISTS, for which PostgreSQL may read all entries of the other terms into a hash table.
_IS_IN = """
coalesce((
    SELECT true FROM ledger_searchterm other
    WHERE other.tenant = entry.tenant AND other.term = ANY (%s)
        AND other.transaction_id = entry.transaction_id LIMIT 1), false)
"""
# The newest entries of a group, and of each whether it has a term of every other group.
_ENTRIES = f"""
SELECT entry.transaction_id, {{is_in_all}} FROM (
    SELECT newest.tenant, newest.transaction_id FROM {_STREAMS}
    ORDER BY newest.transaction_id DESC LIMIT %s
) entry
ORDER BY entry.transaction_id DESC
"""
