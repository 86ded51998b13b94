"""Ids of rows, new ones and those that clients send; and the keys of requests."""

from __future__ import annotations

from uuid import UUID

from django.db import models
from django.db.models.functions import Now
from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A time-ordered UUID (RFC 9562, version 7): newer rows have larger ids."""
    return uuid7()


def id_or_none(text: object) -> UUID | None:
    """Parse an id that a client sent; ``None`` for text that is no UUID."""
    try:
        return UUID(str(text))
    except ValueError:
        return None


class IdempotencyKey(models.Model):
    """One request of one agent, and its answer.

    A row without a transaction is a cancel that came before its prepare; the prepare is refused.
    """

    agent = models.CharField(max_length=150)
    route = models.CharField(max_length=50)
    key = models.CharField(max_length=255)
    payload_hash = models.CharField(max_length=64, blank=True)
    transaction = models.ForeignKey("Transaction", on_delete=models.PROTECT, null=True)
    status = models.PositiveSmallIntegerField(default=201)
    answer = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "route", "key"], name="ledger_key_names_one_request"
            )
        ]

    def __str__(self) -> str:
        return self.key
