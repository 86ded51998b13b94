"""``manage.py apply``: tenants, people, agents, tools and rules as files say they are to be."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import translation

from approvals import declared
from approvals.declared import FilesRefused, Mark, Run, Step
from ledger.errors import LedgerError
from ledger.events import command_principal
from ledger.principals import Surface


class Command(BaseCommand):
    help = (
        "Makes settings as files declare them (docs/operators-as-files.md): shows the plan, and "
        "carries it out. Applied twice, the second time changes nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="a YAML file, or a folder of them")
        parser.add_argument("--dry-run", action="store_true", help="only show what would change")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="also remove what is in no file, of each kind and tenant that is in one",
        )
        parser.add_argument(
            "--secrets-to",
            type=Path,
            metavar="FILE",
            help="write tokens and links that are made into this new file, which you alone can "
            "read, in place of showing them",
        )

    def handle(self, *args: Any, path: Path, **options: Any) -> None:
        with translation.override("en"):
            try:
                steps = declared.plan(declared.read(path), prune=options["prune"])
            except (FilesRefused, LedgerError) as refusal:
                raise CommandError(f"{refusal}\nNothing was changed.") from refusal
            for line in declared.lines(steps, every=options["verbosity"] > 1):
                self.stdout.write(line)
            self._carry_out(steps, options)

    def _carry_out(self, steps: Sequence[Step], options: dict[str, Any]) -> None:
        refused: list[str] = []

        def refuse(step: Step, why: str) -> None:
            refused.append(step.name)
            self.stderr.write(f"! {step.name}: {why} Nothing of it was changed.")

        run = Run(command_principal(), Surface.COMMAND)
        if options["dry_run"]:
            declared.try_out(steps, run, refuse)
            self.stdout.write("Nothing was changed: this was a dry run.")
        else:
            file: Path | None = options["secrets_to"]
            if file is not None:
                _make(file)
            try:
                done = declared.carry_out(steps, run, refuse)
            finally:
                self._tell_secrets(run, file)
            self.stdout.write(_summary(steps, done))
        if refused:
            raise CommandError(f"Refused, and as before: {', '.join(refused)}.")

    def _tell_secrets(self, run: Run, file: Path | None) -> None:
        """Also where it broke off: nobody can ask for them again."""
        lines = [f"{what}: {secret}" for what, secret in run.made]
        if file is None:
            for line in lines:
                self.stdout.write(f"Shown once: {line}")
        elif lines:
            file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        else:
            file.unlink()


def _make(path: Path) -> None:
    """A file of its own, which nobody else may read."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as failure:
        raise CommandError(f"{path} cannot be made: {failure}. Nothing was changed.") from failure


def _summary(steps: Sequence[Step], done: int) -> str:
    marks = Counter(step.mark for step in steps)
    same = f"{marks[Mark.SAME]} are as they were"
    return f"{done} changed, {same}." if done else f"Nothing was changed: {same}."
