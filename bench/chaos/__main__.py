"""``make chaos``: one storm, its table, and an exit status that says whether a promise broke.

    python -m bench.chaos --seed 7 --transactions 3000 --faults 300
    python -m bench.chaos --check FOLDER    # compare the records of an earlier storm again
    python -m bench.chaos --mutants         # does it notice a broken line of the product?

A storm without ``--seed`` takes a new one. Records and logs stay in the folder that is printed if
an invariant was violated, or with ``--keep``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.chaos import checker, hosts, mutants, records, report
from bench.chaos.storm import Storm


def main() -> int:
    options = _parser().parse_args()
    if options.check:
        return _check(options.check)
    if options.mutants is not None:
        return mutants.main(options.mutants)
    if options.hosts and (why := hosts.why_not()):
        print(f"Skipped: {why}.")
        return 0
    seed = random.randrange(1, 1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix=f"assent-chaos-{seed}-"))
    folder.chmod(0o755)
    command = f"make chaos SEED={seed} TRANSACTIONS={options.transactions} FAULTS={options.faults}"
    command += " HOSTS=1" if options.hosts else ""
    print(f"Storm {seed}: {options.transactions:,} transactions, {options.faults:,} faults.")
    print(f"To repeat it: {command}\nRecords and logs: {folder}", flush=True)
    storm = Storm(seed, options.transactions, options.faults, folder, on_hosts=options.hosts)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # what was mounted is unmounted
    began = time.monotonic()
    try:
        storm.run()
    except BaseException:
        print(f"The storm itself failed; what it left is in {folder}.", file=sys.stderr)
        raise
    print(f"It took {time.monotonic() - began:.0f} s; calm came {storm.seconds_to_calm:.0f} s")
    print("after the last fault.")
    for kind, why in storm.left_out.items():
        print(f"Left out: {kind}: {why}.")
    status = tell(folder, storm.happened, storm.failures)
    if status == 0 and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"\nRecords and logs: {folder}\nTo repeat it: {command}")
    return status


def _check(folder: Path) -> int:
    lines = (folder / records.FAULTS).read_text().splitlines()
    kinds = Counter(json.loads(line)["kind"] for line in lines)
    return tell(folder, kinds, [])


def tell(folder: Path, happened: Counter[str], failures: list[str]) -> int:
    kept = records.read(folder)
    found = checker.violations(kept)
    print(report.table(kept, happened, found))
    for failure in failures:
        print(f"\nThe storm itself failed:\n{failure}", file=sys.stderr)
    count = sum(map(len, found.values()))
    print(f"\n{count} violations." if count else "\nEvery promise held.")
    return 1 if count or failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--transactions", type=int, default=3000)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument(
        "--hosts", action="store_true", help="each process on a host of its own (root, Linux)"
    )
    parser.add_argument("--keep", action="store_true", help="keep records and logs in any case")
    parser.add_argument("--mutants", type=int, nargs="*", help="all, or those with these numbers")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="of an earlier storm")
    return parser


if __name__ == "__main__":
    sys.exit(main())
