"""``manage.py evidence``: an archive for auditors of one tenant and one period."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import date, datetime, time as day_time, timedelta
from pathlib import Path
from typing import IO, Any, TypeVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from ledger.events import command_principal
from ledger.models import Tenant
from ledger.proof.archive import Archive, NotYetSigned, Period

T = TypeVar("T")
LEAST_PATIENCE_S, ROUNDS = 60.0, 3
NO_CHECKPOINT = (
    "No checkpoint came for {seconds:.0f} s, so nothing would prove the archive. It was not "
    "written. Look whether a sweeper runs, and for `No checkpoint is signed` in its log."
)


class Command(BaseCommand):
    help = (
        "Writes what auditors ask for: decisions of a period with their proofs, the rules in "
        "force, who held what, a sample to look at, and a verifier. It has everything in it that "
        "people signed off."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True)
        parser.add_argument(
            "--from", dest="first", required=True, type=date.fromisoformat, metavar="DATE"
        )
        parser.add_argument(
            "--to",
            dest="last",
            required=True,
            type=date.fromisoformat,
            metavar="DATE",
            help="the last day, which is in it; of today what was so far",
        )
        parser.add_argument("--out", required=True, type=Path, metavar="FILE.zip")
        parser.add_argument("--sample", type=int, default=25, metavar="N", help="default: 25")
        parser.add_argument(
            "--with-ledger",
            action="store_true",
            help="put the export of the whole ledger into it, of all tenants: proves that no "
            "decision is missing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        period = _period(options["tenant"], options["first"], options["last"])
        if options["sample"] < 1:
            raise CommandError("--sample is a number of decisions, 1 or more. Nothing was written.")
        out: Path = options["out"]
        new = out.with_name(out.name + ".new")
        new.unlink(missing_ok=True)  # one of somebody else would stay theirs to read
        try:
            with open(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                number = _write(file, period, options["sample"], options["with_ledger"])
            new.replace(out)
        finally:
            new.unlink(missing_ok=True)
        self.stdout.write(
            self.style.SUCCESS(
                f"{number} decisions are in {out}. Its README.txt says how to check."
            )
        )


def _period(tenant: str, first: date, last: date) -> Period:
    """Whole days in the time zone of the installation."""
    if not Tenant.objects.filter(pk=tenant).exists():
        raise CommandError(f"There is no tenant {tenant}. Nothing was written.")
    midnights = (datetime.combine(day, day_time.min) for day in (first, last + timedelta(days=1)))
    begins_at, ends_at = (timezone.make_aware(each) for each in midnights)
    ends_at = min(ends_at, timezone.now())
    if begins_at >= ends_at:
        raise CommandError("The period is empty, or has not begun. Nothing was written.")
    return Period(tenant, begins_at, ends_at)


def _write(file: IO[bytes], period: Period, sample: int, with_ledger: bool) -> int:
    with Archive(file, period, sample) as archive:
        number = _signed(lambda: archive.write(with_ledger=with_ledger))
        event = archive.record(command_principal())
        _signed(lambda: archive.seal(event))
    return number


def _signed(work: Callable[[], T]) -> T:
    """Do it once the events that it is about are under a checkpoint."""
    patience_s = max(LEAST_PATIENCE_S, ROUNDS * settings.CHECKPOINT_EVERY_S)
    until = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except NotYetSigned:
            if time.monotonic() > until:
                raise CommandError(NO_CHECKPOINT.format(seconds=patience_s)) from None
            time.sleep(1)
