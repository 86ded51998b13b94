"""The audit log: one row per event."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now, Upper

from ledger.models.transactions import Transaction


class Event(models.Model):
    """One event of one subject: a transaction, a task or an account. Appended, never changed.

    The database seals each row (``ledger/sql/seal_event.sql``): it sets ``seq``, ``at``,
    ``from_state`` and the hashes; ``ledger.proof.audit.verification`` recomputes them.
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
    # Not sealed, and believed only where it makes the same text. Erased with the reason.
    reason_source = models.JSONField(
        null=True, help_text="Code and values that the text was made from."
    )
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


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "waiting"
    DONE = "done", "done"
    GIVEN_UP = "given_up", "given up"


class Delivery(models.Model):
    """One message to one recipient, because of one event.

    Inserted with the event and without a recipient; the channel then adds a row per recipient.
    """

    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="deliveries")
    channel = models.CharField(max_length=30)
    recipient = models.CharField(max_length=300, blank=True)
    state = models.CharField(max_length=10, choices=DeliveryState, default=DeliveryState.WAITING)
    # Counts claims; a write of an older claim matches no row.
    attempts = models.PositiveIntegerField(default=0)
    failures = models.PositiveSmallIntegerField(db_default=0)
    next_attempt_at = models.DateTimeField(db_default=Now())
    error = models.TextField(blank=True)
    done_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["event", "channel", "recipient"], name="ledger_delivery_one_per_recipient"
            )
        ]
        indexes = [
            models.Index(
                name="ledger_delivery_overdue",
                fields=["next_attempt_at"],
                condition=Q(state=DeliveryState.WAITING),
            ),
            # What operators see; few rows among very many.
            models.Index(
                name="ledger_delivery_given_up",
                fields=["-id"],
                condition=Q(state=DeliveryState.GIVEN_UP),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel} to {self.recipient or 'whom it concerns'}"


class SiemPosition(models.Model):
    """Up to which event the SIEM took the log. ``ledger.delivery.siem`` writes the one row."""

    id = models.SmallIntegerField(primary_key=True)
    upto_event = models.BigIntegerField()
    # Raised by one with each batch; a write that carries an older one is void.
    epoch = models.BigIntegerField()
    held_until = models.DateTimeField(help_text="No other batch is sent before.")
    failures = models.PositiveSmallIntegerField(help_text="In a row.")

    class Meta:
        constraints = [
            models.CheckConstraint(name="ledger_siemposition_one_row", condition=Q(id=1))
        ]

    def __str__(self) -> str:
        return f"up to event {self.upto_event}"


class Checkpoint(models.Model):
    """A signed statement of how many sealed events there are, and of the root over them."""

    id = models.BigAutoField(primary_key=True)
    size = models.BigIntegerField(unique=True, help_text="How many events it covers,")
    upto_event = models.BigIntegerField(unique=True, help_text="of which this is the last.")
    root = models.CharField(max_length=64)
    note = models.TextField(help_text="C2SP tlog-checkpoint, signed by the log.")
    public_key = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"checkpoint of {self.size} events"


class Cosignature(models.Model):
    """A witness's signature: the checkpoint is consistent with all that it cosigned before."""

    id = models.BigAutoField(primary_key=True)
    checkpoint = models.ForeignKey(
        Checkpoint, on_delete=models.PROTECT, related_name="cosignatures"
    )
    witness = models.CharField(max_length=200)
    line = models.TextField(help_text="The signature line, without its newline.")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["checkpoint", "witness"], name="ledger_cosignature_one_per_witness"
            )
        ]

    def __str__(self) -> str:
        return f"{self.checkpoint_id} by {self.witness}"


class Tile(models.Model):
    """Up to 256 hashes of one level of the tree (C2SP tlog-tiles). They only ever grow."""

    id = models.BigAutoField(primary_key=True)
    level = models.PositiveSmallIntegerField()
    index = models.BigIntegerField()
    hashes = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["level", "index"], name="ledger_tile_one_per_place")
        ]

    def __str__(self) -> str:
        return f"tile {self.level}/{self.index}"
