"""``make scale``: each page and operation on a small ledger and on a large one, side by side.

Both ledgers are databases of one server, each behind a web process of its own, and every request
goes to both in turn: whatever else the machine does meanwhile, it does to both.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import ExitStack
from pathlib import Path

from bench.engines import engines

SMALL, LARGE = 1_000, 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--small", type=int, default=SMALL, help="ended transactions")
    parser.add_argument("--large", type=int, default=LARGE, help="ended transactions")
    parser.add_argument("--times", type=int, default=31, help="requests of each kind")
    parser.add_argument("--plans", action="store_true", help="only what is read, no times")
    parser.add_argument("--only", default="", help="measure what has this in its name")
    parser.add_argument(
        "--keep", type=Path, help="a folder for the ledgers: the next run need not seed them again"
    )
    options = parser.parse_args()
    os.environ["ASSENT_METRICS_TOKEN"] = "scrape"
    with engines(options.keep), ExitStack() as stack:
        from bench.scale import ledgers, measuring, plans

        def plans_of(database: str, only: str) -> dict[str, plans.Work]:
            ledgers.use(database)
            return dict(plans.works(only))

        both = []
        for name, number in (("small", options.small), ("large", options.large)):
            began = time.perf_counter()
            both.append(ledgers.fill(name, number))
            span = time.perf_counter() - began
            print(
                f"{number:,} transactions in {span:.0f} s, {both[-1].gigabytes:.2f} GB", flush=True
            )
        bad = plans.report(*(plans_of(ledger.database, options.only) for ledger in both))
        if options.plans:
            raise SystemExit(bool(bad))
        ports = [stack.enter_context(ledgers.served(ledger)) for ledger in both]
        measuring.compare(both, ports, times=options.times, only=options.only)


if __name__ == "__main__":
    main()
