"""Erasure of content that is past its retention, and legal holds, which prevent it.

A transaction keeps its content (arguments, plan, texts, result) until ``retain_until``. Then the
sweeper empties it and seals that as an event with the digest of what each column had. The keys,
the receipt, the digests and the events stay: an operation is still known as done, and the audit
log still verifies (``ledger.events.erasures``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.errors import InvalidRequest, NotPossible, Sentence
from ledger.events import ERASED
from ledger.models import (
    Decision,
    Delivery,
    DeliveryState,
    Event,
    Evidence,
    IdempotencyKey,
    Revision,
    Transaction,
    TransactionQuerySet,
)
from ledger.principals import SWEEPER, Principal, Surface
from ledger.reporting.usage import forget_subjects
from ledger.states import FINAL, Move, Reasons, State
from ledger.transactions import (
    MOVES,
    chain_faults,
    former_of,
    links_of,
    revision_faults,
    row_faults,
)
from ledger.transactions.coordinator import check_reason
from ledger.transactions.transitions import advance

logger = logging.getLogger(__name__)

BATCH = 20  # rows that one database transaction erases
BATCHES = 5  # of one sweep, so that it never keeps the other steps waiting for long
RETRY_S = 600.0  # after which a row is tried again whose erasure failed
MOST_FAILED = 1_000  # such rows that this process remembers
VIA = Surface.SYSTEM

_failed_at: dict[UUID, float] = {}


@dataclass(frozen=True, slots=True)
class Related:
    """Content that an optional app keeps beside transactions."""

    erase_due: Callable[[], None]  # what no transaction came of
    erase_with: Callable[[Sequence[UUID]], None]  # with transactions, in their database transaction


_related: list[Related] = []


def register(related: Related) -> None:
    """Called in ``AppConfig.ready()``."""
    _related.append(related)


def due() -> TransactionQuerySet:
    """Ended transactions past retention by the database's clock, not held, with no open work."""
    return Transaction.objects.filter(
        ~Exists(open_deliveries()),
        state__in=sorted(FINAL),
        retain_until__lte=Now(),
        content_erased_at=None,
        legal_hold_at=None,
        late_receipt="",
        settlement__isnull=True,
    )


def open_deliveries() -> QuerySet[Delivery]:
    """Deliveries still waiting for the subject of the outer query."""
    return Delivery.objects.filter(event__subject=OuterRef("pk"), state=DeliveryState.WAITING)


# --- the sweeper's step -----------------------------------------------------------------------


def erase_due() -> None:
    """Erase what is due, in at most ``BATCHES`` batches; the next sweep erases the rest."""
    for related in _related:
        related.erase_due()
    for _ in range(BATCHES):
        if erase_batch() < BATCH:
            return


def erase_batch(most: int = BATCH) -> int:
    """Erase the content of up to ``most`` transactions, in one database transaction.

    Locked rows are left for the next sweep. A row that does not verify is put under a legal hold
    instead: erasing it would destroy the evidence. Returns how many rows were examined.
    """
    return erase_each(due(), _erase_one, most)


def erase_each(rows: QuerySet[Any], erase: Callable[[UUID], None], most: int) -> int:
    """Call ``erase`` with the ids of up to ``most`` rows, oldest retention first; lock each.

    One whose erasure fails is logged, left as it was, and tried again after ``RETRY_S``: until
    then the others come first. Returns how many rows were tried. Raises only when the connection
    to the database is lost.
    """
    now = time.monotonic()
    for row_id in [row_id for row_id, at in _failed_at.items() if now - at >= RETRY_S]:
        del _failed_at[row_id]
    with atomic():
        # Only the ids: a value that cannot be read must not keep the other rows from being read.
        free = rows.exclude(pk__in=list(_failed_at)).order_by("retain_until").only("pk")
        ids = [row.pk for row in free.select_for_update(skip_locked=True, of=("self",))[:most]]
        for row_id in ids:
            try:
                with atomic():
                    erase(row_id)
            except Exception:
                if not connection.is_usable():
                    raise
                logger.exception("the content of %s could not be erased", row_id)
                _postpone(row_id, now)
    return len(ids)


def _postpone(row_id: UUID, now: float) -> None:
    """Remember a failed row; of too many the first ones are forgotten, and so tried again."""
    _failed_at[row_id] = now
    if len(_failed_at) > MOST_FAILED:
        del _failed_at[next(iter(_failed_at))]


def _erase_one(transaction_id: UUID) -> None:
    if _erase(Transaction.objects.get(pk=transaction_id)):
        _erase_around([transaction_id])


def _erase(row: Transaction) -> bool:
    """Erase one locked row and seal that. ``False`` when it was held or did not verify."""
    links = links_of(row.pk)
    faults = [
        *chain_faults(links, MOVES),
        *(row_faults(row, links) if links else ["It has no events."]),
        *(revision_faults(row, former_of(row.pk, links), links) if links else []),
    ]
    if faults:
        logger.error("the content of transaction %s is kept: %s", row.pk, faults[0])
        _hold_back(row, faults[0])
        return False
    try:
        advance(
            row.pk,
            states.CONTENT_ERASED,
            by=SWEEPER,
            via=VIA,
            reason=Reasons.RETENTION_OVER(),
            only_if=Q(pk__in=due()),
            details={"erased": seals.digests_of(row)},
            content_erased_at=Now(),
            error="",
            error_detail="",
            evidence=None,
            **seals.EMPTY,
        )
    except NotPossible:
        return False  # a legal hold was placed in the meantime
    return True


def _hold_back(row: Transaction, fault: str) -> None:
    advance(
        row.pk,
        states.LEGAL_HOLD_PLACED,
        by=SWEEPER,
        via=VIA,
        reason=f"It does not verify, so its content was not erased: {fault}"[:2000],
        legal_hold_at=Now(),
    )


def _erase_around(subjects: Sequence[UUID]) -> None:
    """Erase what stands in related rows: evidence, reasons, stored answers, errors."""
    Evidence.objects.filter(transaction__in=subjects).delete()
    Revision.objects.filter(transaction__in=subjects).exclude(content={}).update(content={})
    erase_reasons(subjects)
    decisions = Decision.with_withdrawn.filter(transaction__in=subjects)
    decisions.exclude(reason="").update(reason="")
    keys = IdempotencyKey.objects.filter(transaction__in=subjects)
    for related in _related:
        related.erase_with(subjects)
    keys.exclude(answer="").update(answer="")
    forget_subjects(subjects)


def erase_reasons(subjects: Sequence[UUID]) -> None:
    """Empty the reasons of the events before the erasure, and the errors of their deliveries.

    The database allows it only for subjects whose erasure is sealed. Their digests stay.
    """
    events = Event.objects.filter(subject__in=subjects).exclude(kind__in=ERASED)
    events.exclude(reason="").update(reason="", reason_source=None)
    Delivery.objects.filter(event__subject__in=subjects).exclude(error="").update(error="")


# --- legal hold -------------------------------------------------------------------------------


def hold(transaction_id: UUID, *, by: Principal, via: Surface, reason: str) -> Transaction:
    """Keep the content past its retention, until the hold is released.

    If a hold and an erasure race, exactly one of them happens. Raises ``InvalidRequest``
    without a reason, ``NotPossible`` when it is held or erased already, ``NotFound``.
    """
    free = Q(legal_hold_at=None, content_erased_at=None)
    return _change_hold(transaction_id, states.LEGAL_HOLD_PLACED, free, by, via, reason, Now())


def release(transaction_id: UUID, *, by: Principal, via: Surface, reason: str) -> Transaction:
    """End a legal hold; the content is erased once its retention is over. Raises as ``hold``."""
    held = Q(legal_hold_at__isnull=False)
    return _change_hold(transaction_id, states.LEGAL_HOLD_RELEASED, held, by, via, reason, None)


def _change_hold(
    transaction_id: UUID,
    move: Move[State],
    only_if: Q,
    by: Principal,
    via: Surface,
    reason: str,
    legal_hold_at: Now | None,
) -> Transaction:
    check_hold_reason(reason)
    try:
        return advance(
            transaction_id,
            move,
            by=by,
            via=via,
            reason=reason,
            only_if=only_if & ~Q(proposed_by=str(by)),
            legal_hold_at=legal_hold_at,
        )
    except NotPossible as refusal:
        row = refusal.snapshot
        if row is None:
            raise
        raise NotPossible(why_no_hold(row, str(row.proposed_by) == str(by)), snapshot=row) from None


def check_hold_reason(reason: str) -> None:
    """Raises ``InvalidRequest`` for a reason that is empty, too long or unsafe to show."""
    if not reason.strip():
        raise InvalidRequest(Sentence("Say why: the reason is kept in the audit log."))
    check_reason(reason)


def why_no_hold(row: Any, is_own: bool) -> str:
    """Why a hold on this row could not be placed or released."""
    if row.content_erased_at is not None:
        day = f"{row.content_erased_at:%Y-%m-%d}"
        return Sentence("Its content was erased on {day} under retention.", day=day)
    if is_own:
        return Sentence("You proposed it yourself; somebody else has to do that.")
    if row.legal_hold_at:
        return Sentence("It is under a legal hold.")
    return Sentence("It is under no legal hold.")
