from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger import audit


class Command(BaseCommand):
    help = "Proves the whole ledger, or names the first row that is broken."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            proof = audit.verify()
        except audit.Broken as broken:
            raise CommandError(f"The ledger is broken: {broken}") from broken
        self.stdout.write(
            self.style.SUCCESS(
                f"The ledger is whole: {proof.events} events of {proof.transactions} transactions "
                f"and {proof.others} tasks under {proof.checkpoints} signed checkpoints; "
                f"{proof.uncovered} events are newer than the last checkpoint."
            )
        )
        for key in proof.public_keys:
            self.stdout.write(f"Signed by Ed25519 public key {key}.")
