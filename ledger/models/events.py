"""The audit log: one row per event."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now, Upper

from ledger.models.transactions import Transaction


class Event(models.Model):
    """One event of one subject: a transaction, a task or an account. Appended, never changed.

    The database seals each row (``ledger/sql/seal_event.sql``): it sets ``seq``, ``at``,
    ``from_state`` and the hashes; ``ledger.audit.verification`` recomputes them.
    """

    id = models.BigAutoField(primary_key=True)
    # The subject of the chain. Upper rooms keep the history of their rows in the same log.
    subject = models.UUIDField()
    transaction = models.ForeignKey(
        Transaction, on_delete=models.PROTECT, related_name="events", null=True
    )
    tenant = models.CharField(max_length=63)
    seq = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=30)
    from_state = models.CharField(max_length=20, blank=True)
    to_state = models.CharField(max_length=20)
    principal = models.CharField(max_length=150)
    principal_name = models.CharField(max_length=200)
    via = models.CharField(max_length=20)
    # Erased with the content of the subject; the hash covers its digest, which stays.
    reason = models.TextField(blank=True)
    reason_digest = models.CharField(max_length=64, blank=True)
    details = models.TextField(default="{}", help_text="Canonical JSON; it is never erased.")
    at = models.DateTimeField(db_default=Now())
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "seq"], name="ledger_event_one_place_in_chain"
            ),
            models.CheckConstraint(
                name="ledger_event_transaction_is_subject",
                condition=Q(transaction=None) | Q(transaction=F("subject")),
            ),
        ]
        indexes = [
            # The query of the live watcher, once a second.
            models.Index(name="ledger_event_recent", fields=["at"]),
            # The operators' lists of events and of deliveries.
            models.Index(name="ledger_event_of_tenant", fields=["tenant", "-id"]),
            # "Who changed what": the changes of accounts, newest first; of one kind; by somebody.
            models.Index(name="ledger_event_changes", fields=["-id"], condition=Q(to_state="")),
            models.Index(
                name="ledger_event_change_kind", fields=["kind", "-id"], condition=Q(to_state="")
            ),
            models.Index(
                name="ledger_event_change_by", fields=["principal"], condition=Q(to_state="")
            ),
            models.Index(
                Upper("principal_name"), name="ledger_event_change_name", condition=Q(to_state="")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.principal}"
