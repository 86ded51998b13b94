"""``manage.py export_ledger``: writes the audit log as a file that verifies offline."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from ledger.proof import audit


class Command(BaseCommand):
    help = (
        "Writes transactions, decisions, events and checkpoints of one instant as JSON lines, "
        "which examples/verify.py verifies. It has everything in it that people sign off."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, help="default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path | None = options["file"]
        if file is None:
            for line in audit.export_lines():
                self.stdout.write(line)
            return
        new = file.with_name(file.name + ".new")
        with new.open("w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in audit.export_lines())
        new.replace(file)
        self.stdout.write(self.style.SUCCESS(f"The ledger is in {file}."))
