"""The tables of the transparency log: its checkpoints, their cosignatures, and its tree.

Only ``ledger.log.checkpoints`` and ``ledger.log.witnesses`` write them; the database refuses to
change their rows (``ledger/sql/append_only.sql``).
"""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


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
