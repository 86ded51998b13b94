"""``manage.py pin_policy``: the policy document that a tenant's supervisors have to cite."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.agents import enrolment, keep_policy
from ledger.errors import LedgerError
from ledger.events import command_principal
from ledger.models import Tenant
from ledger.principals import Surface


class Command(BaseCommand):
    help = "Keeps a policy document and pins it: approvals of supervisors have to cite it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--name", help="As “Furniture”.")
        parser.add_argument("--version-of-it", default="1", help="Another text needs another one.")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--file", type=Path, help="Markdown with numbered paragraphs, UTF-8.")
        what.add_argument("--none", action="store_true", help="Supervisors need not cite any.")

    def handle(self, *args: Any, tenant: str, **options: Any) -> None:
        home = Tenant.objects.filter(pk=tenant).first()
        if home is None:
            raise CommandError(f"There is no tenant {tenant}.")
        author: dict[str, Any] = {"by": command_principal(), "via": Surface.COMMAND}
        try:
            sha256 = "" if options["none"] else _kept(tenant, author["by"], **options)
        except (LedgerError, OSError, UnicodeDecodeError) as refusal:
            raise CommandError(str(refusal)) from None
        enrolment.require_policy(home, sha256, **author)
        self.stdout.write(sha256 or "No policy document is pinned any more.")


def _kept(tenant: str, by: Any, *, file: Path, name: str, version_of_it: str, **_: Any) -> str:
    document, _is_new = keep_policy(
        tenant, name=name or file.stem, version=version_of_it, text=file.read_text("utf-8"), by=by
    )
    return document.sha256
