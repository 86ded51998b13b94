"""Pages and operations read by index, and only so much, however large the ledger is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# 1000000 takes ten minutes and 10 GB. With fewer, PostgreSQL may rightly prefer to read a table.
ROWS = int(os.environ.get("SCALE_ROWS", "0"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_thousand_transactions_are_seeded_and_every_page_answers():
    """Without the verdict on what is read: of small tables PostgreSQL may read the whole."""
    run = works_at(1000)

    assert "| sweeper |" in run.stdout, run.stderr[-3000:]
    assert "Traceback" not in run.stderr, run.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.skipif(not ROWS, reason="only with SCALE_ROWS, the number of transactions")
@pytest.mark.timeout(120 + ROWS / 500)
def test_no_page_or_operation_reads_a_large_table_or_many_rows():
    run = works_at(ROWS)

    assert "| history, all |" in run.stdout, run.stderr[-3000:]
    assert "**fault**" not in run.stdout, run.stdout
    assert run.returncode == 0, run.stderr[-3000:]


def works_at(large: int) -> subprocess.CompletedProcess[str]:
    command = ["-m", "bench.scale", "--small", "1000", "--large", str(large), "--plans"]
    outside = {"DATABASE_URL", "REDIS_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in outside}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )
