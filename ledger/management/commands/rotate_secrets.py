"""``manage.py rotate_secrets``: encrypts every secret with the newest key."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.transaction import atomic

from ledger.foundation.crypto import encryption
from ledger.foundation.crypto.encryption import SecretField, SecretUnreadable


class Command(BaseCommand):
    help = "Encrypts every stored secret with the first of ASSENT_ENCRYPTION_KEYS. May run again."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.ENCRYPTION_KEYS:
            raise CommandError("ASSENT_ENCRYPTION_KEYS is not set. Nothing was changed.")
        for field in encryption.secret_fields():
            try:
                number = rotate(field)
            except SecretUnreadable as failure:
                raise CommandError(f"{failure} What was rotated before stays.") from failure
            self.stdout.write(f"{field.model._meta.label}.{field.name}: {number} encrypted anew.")
        newest = encryption.key_id(settings.ENCRYPTION_KEYS[0])
        self.stdout.write(f"Everything is encrypted with key {newest}; the others may go.")


def rotate(field: SecretField) -> int:
    """Number of rows rewritten; each on its own, so that nobody waits for all of them."""
    rows, number = field.model._base_manager, 0
    for pk in rows.exclude(**{field.attname: ""}).values_list("pk", flat=True).iterator():
        with atomic():
            row = rows.select_for_update().only("pk", field.attname).filter(pk=pk).first()
            if row is not None:
                row.save(update_fields=[field.attname])
                number += 1
    return number
