"""``manage.py verify_ledger``: recomputes the audit log and names what was changed."""

from __future__ import annotations

import json
import re
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ledger.proof import audit
from ledger.proof.audit import Coverage, Proof, Since
from ledger.proof.log import checkpoints

# How old an event may be that is under no checkpoint yet.
PATIENCE_ROUNDS, LEAST_PATIENCE = 5, timedelta(minutes=5)
COVERAGE_FIELDS = ("checkpoints", "size", "root", "upto_event")


class Command(BaseCommand):
    help = (
        "Proves that what was carried out was signed off, that no row differs from what was "
        "sealed, and that every event is under a signed checkpoint; or names what is broken."
    )
    requires_system_checks: list[str] = []  # of the source: `make check` makes them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--public-key",
            action="append",
            default=[],
            metavar="HEX",
            help="trust checkpoints of this Ed25519 key (default: the own keys); repeatable",
        )
        parser.add_argument(
            "--any-key",
            action="store_true",
            help="take each checkpoint by the key beside it: proves no more than a checksum",
        )
        parser.add_argument(
            "--since",
            type=Path,
            metavar="FILE",
            help="go on where the proof ended that FILE tells of, and keep there how far this "
            "one came; keep FILE where nobody can write who can write the database",
        )
        parser.add_argument("--full", action="store_true", help="start anew, and renew FILE")
        parser.add_argument(
            "--against",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help="checkpoints that were published outside must be those of the log; repeatable",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        keys = _trusted_keys(options["public_key"], any_key=options["any_key"])
        file: Path | None = options["since"]
        since = None if file is None or options["full"] else _read_since(file)
        against = [_read(path) for path in options["against"]]
        bar = ProgressBar(sys.stderr)
        try:
            proof = audit.verify(
                keys,
                since=since,
                against=against,
                patience=max(
                    LEAST_PATIENCE,
                    timedelta(seconds=settings.CHECKPOINT_EVERY_S) * PATIENCE_ROUNDS,
                ),
                progress=bar.show,
            )
        except audit.Broken as broken:
            bar.end()
            for fault in broken.faults:
                self.stderr.write(f"- {fault}")
            count = len(broken.faults)
            raise CommandError(
                f"The ledger is broken: {count} fault{'s' if count > 1 else ''}, "
                f"the first is: {broken.faults[0]}"
            ) from broken
        bar.end()
        if file is not None and proof.reached is not None:
            _write_since(file, proof.reached)
        self._tell(proof, is_new_only=since is not None, any_key=keys is None)
        if not against:
            self.stdout.write(
                "Only checkpoints that were kept elsewhere (--against) show whether the end of the "
                "log is missing, with all its traces."
            )

    def _tell(self, proof: Proof, *, is_new_only: bool, any_key: bool) -> None:
        scope = "What is new is whole" if is_new_only else "The ledger is whole"
        self.stdout.write(
            self.style.SUCCESS(
                f"{scope}: {proof.events} events of {proof.transactions} transactions "
                f"and {proof.others} tasks and accounts under {proof.checkpoints} signed "
                f"checkpoints; {proof.uncovered} events are newer than the last checkpoint."
            )
        )
        if proof.signing_keys:
            self.stdout.write(
                f"{proof.signing_keys} keys of people may sign, or did once; "
                f"two operators enrolled {proof.signing_keys_by_two} of them: compare these with "
                "what the operators know."
            )
        for key in sorted(proof.public_keys):
            self.stdout.write(f"Signed by Ed25519 public key {key}.")
        if any_key:
            self.stdout.write("This key was not compared with a known one (--any-key).")


def _trusted_keys(named: list[str], *, any_key: bool) -> frozenset[str] | None:
    if any_key:
        return None
    for key in named:
        if not re.fullmatch("[0-9a-fA-F]{64}", key):
            raise CommandError(f"{key!r:.80} is not an Ed25519 public key (64 hexadecimal digits).")
    keys = frozenset(key.lower() for key in named) or checkpoints.own_public_keys()
    if not keys:
        raise CommandError(
            "No public key is known, so signatures would prove nothing. Name the log's with "
            "--public-key, or say --any-key. Nothing was verified."
        )
    return keys


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as failure:
        raise CommandError(f"{path} cannot be read: {failure}. Nothing was verified.") from failure


# --- how far an earlier proof came ------------------------------------------------------------


def _read_since(file: Path) -> Since | None:
    try:
        kept = json.loads(file.read_text())
        coverage = Coverage(**{name: kept[name] for name in COVERAGE_FIELDS})
        upto = kept["read_again_upto"]
        return Since(coverage, UUID(upto) if upto else None)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as failure:
        raise CommandError(
            f"{file} does not say how far a proof came ({failure}). Start anew with --full."
        ) from failure


def _write_since(file: Path, reached: Since) -> None:
    kept = {name: asdict(reached.coverage)[name] for name in COVERAGE_FIELDS}
    kept["read_again_upto"] = str(reached.read_again_upto or "")
    new = file.with_name(file.name + ".new")
    new.write_text(json.dumps(kept, indent=1) + "\n")
    new.replace(file)


class ProgressBar:
    """Percent, rows a second and time left: one line on a terminal, a line now and then else."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._step = ""
        self._began = self._shown = time.monotonic()

    def show(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if step != self._step:
            self._step, self._began = step, now
        elif done < total and now - self._shown < (0.2 if self._is_terminal else 10):
            return
        self._shown = now
        share = done / total if total else 1.0
        line = f"{step}: {share:4.0%} of {total:,}"
        if now - self._began > 1 and done:  # before that the speed is a guess
            speed = done / (now - self._began)
            left = timedelta(seconds=round((total - done) / speed))
            line += f", {speed:,.0f}/s, {left} left"
        if self._is_terminal:
            filled = round(share * 24)
            self._out.write(f"\r[{'#' * filled}{'.' * (24 - filled)}] {line}\x1b[K")
        elif done:
            self._out.write(line + "\n")
        self._out.flush()

    def end(self) -> None:
        if self._is_terminal and self._step:
            self._out.write("\n")
