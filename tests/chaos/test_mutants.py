"""``make chaos MUTANTS=1`` breaks lines that are there, and what it plays is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.chaos import checker, mutants
from tests.processes import ROOT

MOST_TELLING = 0  # a receipt is thrown away: the others take a minute each, and are in MUTANTS=1


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_breaks_one_line_of_the_product(mutant):
    lines = (ROOT / mutant.file).read_text()

    assert lines.count(mutant.line) == 1
    assert mutant.caught_by in checker.INVARIANTS


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_receipt_that_is_thrown_away_is_noticed(capfd):
    assert mutants.main([MOST_TELLING]) == 0, capfd.readouterr().out
