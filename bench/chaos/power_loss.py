"""``make power-loss``: what PostgreSQL's disk holds at arbitrary instants under load.

PostgreSQL lives on a file system of its own, mounted from a file. What a program has written and
the kernel has not yet flushed is in the page cache of that file system and not in the file: so a
copy of the file is what a disk holds after the power failed at this instant. PostgreSQL's
processes stand still meanwhile, and the file is copied until it is equal to its copy.

Each copy is mounted and started elsewhere. Every prepare, decision and receipt that a client was
told of before the instant has to be there, and the ledger has to be whole. The same with
``fsync=off`` has to lose something, or the test would prove nothing.

It is weaker than a real power failure in one way: what the device was sent counts as kept, although
a disk may still lose what is in its own cache and was never flushed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.chaos import checker, engines, installation, records
from bench.chaos.installation import Installation
from bench.chaos.records import Records
from bench.chaos.script import Planned
from bench.chaos.storm import Storm
from tests.faults import thaw

PER_INSTANT = 12  # transactions between two of them
CONTROL_INSTANTS = 4
DISK = "400M"  # the smaller, the faster it is copied
STARTS_WITHIN_S = 30.0
SMALL_WAL = {"max_wal_size": "64MB", "min_wal_size": "32MB"}
# What is proved of each copy; the rest of the invariants are about the end of a storm.
PROVED = (
    checker.acknowledged_prepares_have_their_row,
    checker.acknowledged_decisions_have_their_event,
    checker.clients_were_told_the_truth,
    checker.the_ledger_is_whole,
)


@dataclass(frozen=True, slots=True)
class Cut:
    """One instant: the disk as it was, and how many lines the clients' log had."""

    image: Path
    lines: int


@dataclass
class PowerLoss(Storm):
    """A storm without any fault, but for PostgreSQL's standing still while its disk is copied."""

    postgres_settings: dict[str, str] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)

    def run(self) -> None:
        """Take a copy of the disk at each instant."""
        with ExitStack() as stack:
            here = self.start(stack)
            self.rage(here)

    def start(self, stack: ExitStack) -> Installation:
        settings = SMALL_WAL | self.postgres_settings
        here = installation.start(self.folder, stack, disk=DISK, **settings)
        if here.disk.why_not:
            raise Skipped(here.disk.why_not)
        os.sync()  # what was there before the load is not what is tested
        return here

    def kinds(self, here: Installation) -> dict[str, float]:
        return {"power cut": 0.0}

    def happen(self, here: Installation, fault: Planned) -> None:
        image = self.folder / f"cut-{fault.number}.img"
        pids = here.programs["postgres"].freeze()
        try:
            lines = len((self.folder / records.CLIENTS).read_bytes().splitlines())
            _copy_of_one_instant(here.disk.image, image)
        finally:
            for pid in pids:
                thaw(pid)
        self.cuts.append(Cut(image, lines))


class Skipped(Exception):
    """It cannot be tried here, and why."""


def _copy_of_one_instant(disk: Path, copy: Path) -> None:
    """The kernel may flush meanwhile: copy until nothing has changed since the copy began.

    Then every block was the same from its copying to its comparison, so all are of one instant.
    """
    while True:
        subprocess.run(["cp", "--sparse=always", str(disk), str(copy)], check=True)
        if subprocess.run(["cmp", "--quiet", str(disk), str(copy)]).returncode == 0:
            return


# --- after the power has come back ----------------------------------------------------------------


def losses(storm: PowerLoss, cut: Cut) -> list[str]:
    """Facts that clients had been told of and a PostgreSQL started from this copy does not have."""
    with _mounted(cut.image) as data, ExitStack() as stack:
        port = installation.free_port()
        log = storm.folder / f"{cut.image.stem}.log"
        (data / "postmaster.pid").unlink(missing_ok=True)
        program = engines.postgres(data, log, port)
        stack.callback(program.stop)
        program.start()
        try:
            engines.wait_for_postgres("127.0.0.1", port, STARTS_WITHIN_S)
            found = _records(storm, cut, engines.url("127.0.0.1", port))
        except (TimeoutError, psycopg.Error) as failure:
            return [f"PostgreSQL does not start from it: {failure}"]
    return [line for invariant in PROVED for line in invariant(found)]


@contextmanager
def _mounted(image: Path) -> Iterator[Path]:
    folder = image.with_suffix("")
    folder.mkdir()
    try:
        subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
        try:
            yield folder / "postgres"
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


def _records(storm: PowerLoss, cut: Cut, url: str) -> Records:
    """The clients' log until the instant, and the ledger of the copy."""
    ledger, proofs = storm.folder / records.LEDGER, storm.folder / records.PROOFS
    records.save_ledger(url, ledger)
    environment = {**os.environ, **installation.environment("http://localhost", {})}
    environment |= {"DATABASE_URL": url, "REDIS_URL": "redis://127.0.0.1:1/0"}
    proofs.write_text(json.dumps({"verify_ledger": engines.ledger_fault(environment)}))
    found = records.read(storm.folder)
    found.clients = found.clients[: cut.lines]
    return found


def _lost(seed: int, instants: int, **postgres_settings: str) -> int:
    """The number of instants that lost something; prints each."""
    folder = Path(tempfile.mkdtemp(prefix="assent-power-"))
    folder.chmod(0o755)
    storm = PowerLoss(
        seed, instants * PER_INSTANT, instants, folder, lanes=1, postgres_settings=postgres_settings
    )
    try:
        storm.run()
        count = 0
        for number, cut in enumerate(storm.cuts, 1):
            lost = losses(storm, cut)
            count += bool(lost)
            more = f", {len(lost)} lost, such as: {lost[0]:.300}" if lost else ", nothing lost"
            print(
                f"  instant {number:3}: {cut.lines:5} lines of the clients' log{more}", flush=True
            )
            cut.image.unlink()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if len(storm.cuts) < instants or storm.failures:
        raise AssertionError("\n".join(storm.failures) or "not every instant was copied")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos.power_loss", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    parser.add_argument("--instants", type=int, default=24)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # what was mounted is unmounted
    try:
        print(f"The power fails at {options.instants} instants (seed {options.seed}):")
        lost = _lost(options.seed, options.instants)
        print("The control: the same with fsync=off has to lose something.")
        control = _lost(options.seed, CONTROL_INSTANTS, fsync="off", synchronous_commit="off")
    except Skipped as why:
        print(f"Skipped: {why}.")
        return 0
    print(f"Lost something: {lost} of {options.instants} instants.")
    print(f"The control lost something at {control} of {CONTROL_INSTANTS}.")
    return 0 if lost == 0 and control > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
