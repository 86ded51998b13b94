"""Subjects that transactions concern, so that approvers learn how often that was lately.

Kept is a keyed hash of the argument that the contract names, for as long as figures are shown of
it. It goes when the content of its transaction is erased.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import salted_hmac

from ledger import contracts, seals
from ledger.models import Event, SubjectUse, Transaction
from ledger.states import EventKind
from ledger.tools import tool_of

SHOWN = timedelta(days=30)
KEPT = timedelta(days=35)  # a little longer: it goes by the time in the id
MOST = 100  # uses that are looked at, of one subject or of some
SAMPLE_LEAST = 25
RARE = 0.04  # share of requests


def subject_of(row: Transaction) -> str:
    """The value that people know it by; empty where the contract names none, or it is erased."""
    tool = tool_of(row)
    return "" if tool is None else text_of(row.arguments.get(tool.contract.subject, ""))


def text_of(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value).strip()


def hash_of(tenant: str, tool: str, subject: str) -> str:
    """Without invisible differences, and of no use to whoever lacks the installation's key."""
    message = seals.canonical([tenant, tool, seals.folded(subject)])
    return salted_hmac("ledger.usage.subject", message, algorithm="sha256").hexdigest()[:32]


def lately_of(row: Transaction) -> list[UUID]:
    """The other transactions of its subject since ``SHOWN`` before it, newest first, ``MOST``."""
    subject = subject_of(row)
    if not subject:
        return []
    same = SubjectUse.objects.filter(
        tenant=row.tenant,
        tool=row.tool,
        subject=hash_of(row.tenant, row.tool, subject),
        transaction_id__gte=first_id_at(row.created_at - SHOWN),
    )
    ids = same.exclude(pk=row.pk).order_by("-transaction_id")
    return list(ids.values_list("transaction_id", flat=True)[:MOST])


def do_recur(row: Transaction) -> bool:
    """True if the subjects of its tool recur, so that a new one is rare.

    Where each request has a subject of its own (an invoice), they do not. The share of requests
    whose subject was there once estimates how likely the next one is new (Good-Turing).
    """
    uses = _sample(row)
    total = sum(uses)
    once = sum(1 for number in uses if number == 1)
    return total >= SAMPLE_LEAST and (once + 1) / total <= RARE


def _sample(row: Transaction) -> list[int]:
    """Numbers of uses of some subjects: the first by their hash, so any of them."""
    same_tool = SubjectUse.objects.filter(tenant=row.tenant, tool=row.tool).exclude(pk=row.pk)
    hashes = list(same_tool.order_by("subject").values_list("subject", flat=True)[:MOST])
    uses = Counter(hashes)
    if len(hashes) == MOST and len(uses) > 1:
        del uses[hashes[-1]]  # there may be more of it
    return list(uses.values())


def first_id_at(at: datetime) -> UUID:
    """The smallest id of the rows made then: ids begin with the time."""
    return UUID(int=int(at.timestamp() * 1000) << 80)


# --- written with the counts -----------------------------------------------------------------


def remember(after: int, upto: int) -> None:
    """Keep the subjects of the transactions that these events have brought into being."""
    named = [name for name, tool in contracts.tools.items() if tool.contract.subject]
    is_new = Q(pk__gt=after, pk__lte=upto, kind=EventKind.PREPARED, at__gt=timezone.now() - KEPT)
    may_have = Q(transaction__tool__in=named) | Q(transaction__tool_version__isnull=False)
    events = Event.objects.filter(is_new, may_have)
    rows = Transaction.objects.filter(pk__in=events.values("transaction"), content_erased_at=None)
    uses = [
        SubjectUse(row.pk, row.tenant, row.tool, hash_of(row.tenant, row.tool, subject))
        for row in rows.only("pk", "tenant", "tool", "tool_version", "arguments").iterator()
        if (subject := subject_of(row))
    ]
    SubjectUse.objects.bulk_create(uses, batch_size=1_000, ignore_conflicts=True)


def forget_subjects(transaction_ids: Sequence[UUID]) -> None:
    """For the erasure of their content."""
    SubjectUse.objects.filter(pk__in=list(transaction_ids)).delete()


def forget_old() -> None:
    """Forget what nobody is shown any more."""
    SubjectUse.objects.filter(pk__lt=first_id_at(timezone.now() - KEPT)).delete()
