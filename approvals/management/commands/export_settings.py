"""``manage.py export_settings``: the settings that are there, as files that ``apply`` takes."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals import declared
from ledger.models import Tenant


class Command(BaseCommand):
    help = "Writes the settings of each tenant as YAML for `apply`, without anything secret."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", nargs="?", type=Path, help="default: standard output")
        parser.add_argument("--tenant", action="append", help="only of this one; may be repeated")

    def handle(self, *args: Any, folder: Path | None, **options: Any) -> None:
        there = list(Tenant.objects.order_by("pk").values_list("pk", flat=True))
        wanted = options["tenant"] or there
        if unknown := sorted(set(wanted) - set(there)):
            raise CommandError(f"There is no tenant {unknown[0]}. Nothing was written.")
        texts = {slug: declared.text_of(slug) for slug in wanted}
        if folder is None:
            self.stdout.write("---\n".join(texts.values()), ending="")
            return
        folder.mkdir(parents=True, exist_ok=True)
        for slug, text in texts.items():
            (folder / f"{slug}.yaml").write_text(text, "utf-8")
        self.stdout.write(f"{len(texts)} files are in {folder}.")
