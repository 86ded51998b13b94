"""``manage.py rules``: the rules of a tenant from a file that can be kept in git, and back."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledger.errors import LedgerError
from ledger.events import command_principal
from ledger.models import Tenant
from ledger.principals import Surface
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import preview, sentences
from ledger.tools import contracts_of


class Command(BaseCommand):
    help = "Shows, checks and activates the rules of a tenant about who signs what."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", choices=["apply", "export", "list"])
        parser.add_argument("file", type=Path, nargs="?", help="YAML, to apply")
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--dry-run", action="store_true", help="only show what would change")
        parser.add_argument("--days", type=int, default=30, help="of history for the dry run")

    def handle(self, *args: Any, verb: str, tenant: str, **options: Any) -> None:
        if not Tenant.objects.filter(pk=tenant).exists():
            raise CommandError(f"There is no tenant {tenant}.")
        active = rules.active(tenant)
        try:
            match verb:
                case "export":
                    self.stdout.write(rules.as_yaml(active.rules if active else []), ending="")
                case "list":
                    self._list(active.rules if active else [])
                case _:
                    self._apply(tenant, options["file"], options)
        except LedgerError as refusal:
            raise CommandError(f"{refusal.detail} Nothing was changed.") from refusal

    def _list(self, written: list[Any]) -> None:
        for number, rule in enumerate(rules.read(0, written).rules, 1):
            self.stdout.write(f"{number}. {sentences.sentence_of(rule)}")

    def _apply(self, tenant: str, file: Path | None, options: dict[str, Any]) -> None:
        """Check, run the cases, and activate; a command on the server needs nobody else."""
        if file is None:
            raise CommandError("Name the file to apply.")
        written, cases = rules.from_yaml(file.read_text())
        groups.check_known(tenant, rules.read(0, written).rules)
        contract_of = contracts_of(tenant)
        if failing := [*rules.failing_cases(written, cases, contract_of)]:
            raise CommandError(" ".join([*failing, "Nothing was changed."]))
        self._list(written)
        if options["dry_run"]:
            self._preview(tenant, written, timedelta(days=options["days"]), contract_of)
            return
        draft = rules.in_work(tenant)
        draft = rules.edit(
            tenant, written, seen=draft.sha256 if draft else "", by=command_principal()
        )
        rules.activate(tenant, seen=draft.sha256, by=command_principal(), via=Surface.COMMAND)
        self.stdout.write(f"Set {draft.number} of {tenant} is active.")

    def _preview(self, tenant: str, written: list[Any], last: timedelta, contract_of: Any) -> None:
        rows, compiled = preview.proposals(tenant, last), rules.read(0, written)
        result = preview.whole(rows, compiled, contract_of)
        counts = ", ".join(f"{result.counts[change]} {change.value}" for change in preview.Change)
        self.stdout.write(f"Of {result.judged} proposals: {counts}.")
        for changed in result.changed[:20]:
            before, after = (sentences.who_signs(each) for each in (changed.before, changed.after))
            self.stdout.write(f"{changed.id}: {changed.change.value}; {before}, then {after}")
        self.stdout.write("Nothing was changed: this was a dry run.")
