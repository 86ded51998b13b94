"""``python -m bench.usual [RUNS]``: only this."""

from __future__ import annotations

import sys

from bench.engines import engines

if __name__ == "__main__":
    with engines():
        from bench.usual.measuring import RUNS, measure

        for name, value in measure(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS).items():
            print(f"  {name:<66} {value:7.2f}", flush=True)
