"""A short storm over the whole product; ``make chaos`` has the long ones (docs/chaos.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.chaos import faults, script
from tests.processes import ROOT

SEED, TRANSACTIONS, FAULTS = 2026, 240, 20


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_short_storm_breaks_no_promise():
    storm = ["-m", "bench.chaos", "--seed", str(SEED)]
    done = subprocess.run(
        [sys.executable, *storm, "--transactions", str(TRANSACTIONS), "--faults", str(FAULTS)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.endswith("_URL")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    assert done.returncode == 0, done.stdout
    assert "Every promise held." in done.stdout


def test_a_seed_repeats_proposals_and_faults():
    kinds = {"one": 1.0, "another": 2.0, "a third": 3.0}

    for seed in (1, 2):
        again = [[script.proposal(seed, n) for n in range(50)] for _ in range(2)]
        planned = [script.faults(seed, 100, 7, kinds) for _ in range(2)]
        assert again[0] == again[1]
        assert planned[0] == planned[1]
    assert script.faults(1, 100, 7, kinds) != script.faults(2, 100, 7, kinds)


def test_each_kind_of_fault_comes_before_any_comes_twice():
    kinds = {kind: most for kind, (_, most) in faults.KINDS.items()}
    planned = script.faults(7, 1000, len(kinds) + 3, kinds)

    assert set(Counter(fault.kind for fault in planned[: len(kinds)]).values()) == {1}
    assert [fault.at for fault in planned] == sorted(fault.at for fault in planned)
