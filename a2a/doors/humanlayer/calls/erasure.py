"""Erasure of kept calls, with the transaction that came of them or on their own."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from a2a.doors.humanlayer.calls.bound_calls import KEY_PREFIX
from a2a.doors.humanlayer.models import BoundCall
from ledger.models import IdempotencyKey
from ledger.proof.retention import Related


def erase_due() -> None:
    """Empty calls of which no transaction came, or one that was erased without this app."""
    keys = IdempotencyKey.objects.filter(agent=OuterRef("agent"), key=OuterRef("key"))
    over = BoundCall.objects.filter(retain_until__lte=Now()).exclude(spec={})
    over.exclude(Exists(keys)).update(
        spec={}, refusal="Nothing was carried out; why was erased under retention."
    )
    over.filter(Exists(keys.filter(transaction__content_erased_at__isnull=False))).update(spec={})


def erase_with(transactions: Sequence[UUID]) -> None:
    keys = IdempotencyKey.objects.filter(transaction__in=transactions, key__startswith=KEY_PREFIX)
    for agent, key in keys.values_list("agent", "key"):
        BoundCall.objects.filter(agent=agent, key=key).update(spec={})


CALLS = Related(erase_due, erase_with)
