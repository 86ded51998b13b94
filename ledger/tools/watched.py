"""Watching documents that others publish: read again every few minutes, compared with the accepted.

A kind says how its document is read and what a difference means; it registers itself. What cannot
be read is noted, and holds nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce, Now
from django.db.transaction import atomic

from ledger.contracts.results import clean
from ledger.foundation.characters import cleaned
from ledger.models import Watched

READ_EVERY = timedelta(minutes=5)
JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document.

    ``read`` returns ``None`` where there is nothing to read now. ``compare`` sets ``seen`` and
    ``held_why``, in the database transaction that stores them.
    """

    read: Callable[[Watched], Any]
    compare: Callable[[Watched, Any], None]
    unreadable: tuple[type[Exception], ...]


KINDS: dict[str, Kind] = {}


def register(name: str, kind: Kind) -> None:
    """Called in ``AppConfig.ready()``."""
    KINDS[name] = kind


def due() -> list[int]:
    """Ids of the documents that are to be read again."""
    rows = Watched.objects.filter(kind__in=KINDS, read_again_at__lte=Now())
    return list(rows.values_list("pk", flat=True))


def read_soon(pk: int) -> None:
    """Have it read in the sweeper's next round."""
    Watched.objects.filter(pk=pk).update(read_again_at=Now())


def read_now(pk: int) -> str:
    """Read it at once, also while another process reads it; returns as ``read_again`` does."""
    Watched.objects.filter(pk=pk).update(read_again_at=_later())
    return _read(pk)


def read_again(pk: int) -> str:
    """Read the document, if that is due; returns why it could not be read, empty if it was."""
    due = Watched.objects.filter(pk=pk, read_again_at__lte=Now())
    return _read(pk) if due.update(read_again_at=_later()) else ""


def _read(pk: int) -> str:
    rows = Watched.objects.filter(pk=pk)
    before = rows.get()
    kind = KINDS[before.kind]
    try:
        document = kind.read(before)
    except kind.unreadable as failure:
        return note_failure(pk, str(failure))
    with atomic():
        row = rows.select_for_update().filter(pinned_at=before.pinned_at).first()
        if row is not None and document is not None:  # nobody accepted another one meanwhile
            kind.compare(row, document)
            row.error, row.failing_since, row.read_at = "", None, Now()
            row.save()
    return ""


def note_failure(pk: int, why: str) -> str:
    """Store that it could not be read, and return why as it is stored."""
    why = cleaned(clean(why))
    since = Coalesce(F("failing_since"), Now())
    Watched.objects.filter(pk=pk).update(error=why, failing_since=since)
    return why


def accept(pk: int | None, kind: str, document: Any) -> Watched:
    """Compare with this from now on; begins to watch it where ``pk`` is ``None``."""
    rows = Watched.objects.select_for_update()
    row = Watched(kind=kind) if pk is None else rows.get(pk=pk)
    row.pinned = row.seen = document
    row.held_why, row.error, row.failing_since = "", "", None
    row.pinned_at, row.read_at, row.read_again_at = Now(), Now(), _later()
    row.save()
    return row


def begin_anew(pk: int) -> None:
    """Read it soon, as it is somewhere else by now: what is being read counts no more."""
    Watched.objects.filter(pk=pk).update(pinned_at=Now(), read_again_at=Now())


def _later() -> Any:
    return Now() + READ_EVERY * random.uniform(1 - JITTER, 1 + JITTER)
